int
main(void)
{
	return 70;
}
