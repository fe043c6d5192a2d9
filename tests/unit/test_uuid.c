#include "uuid.h"

#include "unit.h"

START_TEST(version_and_variant_are_set_whatever_the_bytes)
{
	uint8_t ones[16], zeros[16] = {0};
	char out[UUID_LEN + 1];

	memset(ones, 0xff, sizeof(ones));
	uuid_from_random(out, ones);
	ck_assert_str_eq(out, "ffffffff-ffff-4fff-bfff-ffffffffffff");
	uuid_from_random(out, zeros);
	ck_assert_str_eq(out, "00000000-0000-4000-8000-000000000000");
}
END_TEST

START_TEST(two_random_ones_differ_and_are_valid)
{
	char a[UUID_LEN + 1], b[UUID_LEN + 1];

	uuid_random(a);
	uuid_random(b);
	ck_assert(uuid_is_valid(a));
	ck_assert_str_ne(a, b);
}
END_TEST

START_TEST(other_forms_are_not_valid)
{
	ck_assert(uuid_is_valid("018F3B2a-1111-7222-8333-444455556666"));
	ck_assert(!uuid_is_valid(""));
	ck_assert(!uuid_is_valid("018f3b2a-1111-7222-8333-44445555666"));
	ck_assert(!uuid_is_valid("018f3b2a-1111-7222-8333-4444555566667"));
	ck_assert(!uuid_is_valid("018f3b2a11117222-8333-444455556666-0000"));
	ck_assert(!uuid_is_valid("{18f3b2a-1111-7222-8333-444455556666"));
	ck_assert(!uuid_is_valid("g18f3b2a-1111-7222-8333-444455556666"));
}
END_TEST

UNIT_TESTS(uuid, version_and_variant_are_set_whatever_the_bytes,
    two_random_ones_differ_and_are_valid, other_forms_are_not_valid)
