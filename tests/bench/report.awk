# report.awk - medians and spreads out of the lines that record() writes.
#
#	awk -v form=text|markdown|json -f report.awk ABOUT RESULTS

BEGIN { FS = "\t" }
FNR == NR { about[++n_about] = $0; next }
{
	key = $1 FS $2 FS $4 FS $3
	if (!(key in count))
		order[++n] = key
	value[key, ++count[key]] = $6 + 0
}

function quoted(text) {
	gsub(/\\/, "\\\\", text)
	gsub(/"/, "\\\"", text)
	return "\"" text "\""
}

# Sorts the values of key; then low is value[key, 1].
function sorted(key,	i, j, t) {
	for (i = 2; i <= count[key]; i++)
		for (j = i; j > 1 && value[key, j] < value[key, j - 1]; j--) {
			t = value[key, j]
			value[key, j] = value[key, j - 1]
			value[key, j - 1] = t
		}
}

function median(key,	c) {
	c = count[key]
	return c % 2 ? value[key, (c + 1) / 2] : \
	    (value[key, c / 2] + value[key, c / 2 + 1]) / 2
}

function number(v) {
	if (v == int(v) || v >= 1000 || v <= -1000)
		return sprintf("%.0f", v)
	return sprintf((v >= 10 ? "%.1f" : (v >= 0.1 ? "%.2f" : "%.4f")), v)
}

END {
	for (i = 1; i <= n; i++)
		sorted(order[i])
	if (form == "json")
		json()
	else
		table()
}

function table(	i, f, md, line) {
	md = form == "markdown"
	for (i = 1; i <= n_about; i++) {
		split(about[i], f, FS)
		printf (md ? "- %s: %s\n" : "%-22s %s\n"), f[1], f[2]
	}
	print ""
	line = md ? "| %s | %s | %s | %s | %s | %s |\n" : \
	    "%-9s %-28s %-22s %-16s %12s  %s\n"
	printf line, "axis", "case", "what", "system", "median", "spread"
	if (md)
		print "|---|---|---|---|--:|---|"
	for (i = 1; i <= n; i++) {
		split(order[i], f, FS)
		printf line, f[1], f[2], f[3], f[4], number(median(order[i])),
		    number(value[order[i], 1]) " - " \
		    number(value[order[i], count[order[i]]])
	}
}

function json(	i, j, f) {
	print "{"
	for (i = 1; i <= n_about; i++) {
		split(about[i], f, FS)
		printf "  %s: %s,\n", quoted(f[1]), quoted(f[2])
	}
	print "  \"results\": ["
	for (i = 1; i <= n; i++) {
		split(order[i], f, FS)
		printf "    {\"axis\": %s, \"case\": %s, \"what\": %s, " \
		    "\"system\": %s, \"median\": %.6g, \"values\": [",
		    quoted(f[1]), quoted(f[2]), quoted(f[3]), quoted(f[4]),
		    median(order[i])
		for (j = 1; j <= count[order[i]]; j++)
			printf "%s%.6g", (j > 1 ? ", " : ""), value[order[i], j]
		printf "]}%s\n", (i < n ? "," : "")
	}
	print "  ]"
	print "}"
}
