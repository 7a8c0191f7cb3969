package function

import (
	"slices"
	"strings"
)

// omitted says why a function that users of the engines may expect is missing, or has another name, and what
// to use; "" for other names.
func omitted(name string) string {
	for _, o := range omissions() {
		if slices.Contains(strings.Fields(o.names), name) {
			return o.instead
		}
	}
	if list, ok := strings.CutPrefix(name, "list_"); ok && slices.ContainsFunc(definitions(), func(d definition) bool { return d.Name == "array_"+list }) {
		return "use array_" + list
	}
	return ""
}

// omission has names of functions, and what to use instead of them.
type omission struct{ names, instead string }

func omissions() []omission {
	const staged = "write it in SQL for penstock stage --sql"
	return []omission{
		{"concat", "engines differ if a text is null; use a || b, or concat_ws"},
		{"if iff", "use CASE WHEN condition THEN a ELSE b END"},
		{"ifnull nvl", "use coalesce"},
		{"log", "it means log10 in DuckDB and ln in Spark; use ln, log2 or log10"},
		{"log1p", "use ln(1 + x)"},
		{"expm1", "use exp(x) - 1"},
		{"tanh", "use 1 - 2 / (exp(2 * x) + 1)"},
		{"mod", "use x % y"},
		{"div", "use floor(x / y)"},
		{"pi", "write 3.141592653589793E0"},
		{"clip clamp", "use least(greatest(x, low), high)"},
		{"dayofweek weekday", "engines number the days differently; use isodow, which is 1 on Mondays and 7 on Sundays"},
		{"dayofmonth", "use day"},
		{"extract", "call the part by its name, as in hour(x)"},
		{"date_add date_sub dateadd", "use x + 7 or x - 7 for days"},
		{"epoch unix_timestamp", "use unix_seconds"},
		{"to_timestamp from_unixtime", "use timestamp_seconds, or CAST(x AS timestamp) for texts"},
		{"now current_date current_timestamp today", "the result would depend on the time of the query; write out the date, as in DATE '2026-10-01'"},
		{"size cardinality len array_length array_size strlen char_length", "use length, which takes texts and lists"},
		{"list_extract list_element element get", "use element_at or try_element_at"},
		{"list_slice slice", "use first or last"},
		{
			"list_cosine_similarity array_cosine_similarity list_dot_product list_inner_product array_dot array_inner_product array_distance list_distance",
			"functions of two lists are not supported; " + staged,
		},
		{"list_distinct array_distinct array_join array_to_string array_sort list_sort list_transform transform filter explode unnest", "it is not supported; " + staged},
		{"json json_extract json_value get_json_object from_json", "JSON is not supported; " + staged},
		{"min max", "use least or greatest for several values, array_min or array_max for lists; for several rows, " + staged},
		{"sum avg", "use array_sum or array_avg for lists; for several rows, " + staged},
		{"mean count median stddev variance quantile percentile row_number rank ntile lag lead any_value", "functions of several rows are not supported; " + staged},
		{"md5 sha1 sha256 sha2 xxhash64 murmur3 crc32", "use hash(x, n)"},
		{"random rand uuid", "the result would differ from query to query; use hash of a column"},
		{"regexp_matches regexp_extract regexp_replace regexp_like rlike", "regular expressions are not supported; use LIKE, contains or split_part"},
	}
}
