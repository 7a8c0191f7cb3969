package expr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestParsePrintsCanonicalText(t *testing.T) {
	for text, want := range map[string]string{
		"a=1":                                    "a = 1",
		"a  !=\n1":                               "a <> 1",
		"a<1 and b<=2 or c>3":                    "a < 1 AND b <= 2 OR c > 3",
		"a and (b or c)":                         "a AND (b OR c)",
		"(a and b) or c":                         "a AND b OR c",
		"a or (b or (c))":                        "a OR b OR c",
		"not (a and b)":                          "NOT (a AND b)",
		"not a = 1 and b":                        "NOT a = 1 AND b",
		"not not not a":                          "NOT a",
		"not (not (a))":                          "a",
		"NOT NOT a":                              "a",
		"((a)) = ((1))":                          "a = 1",
		"((a)) = 1":                              "a = 1",
		"a in (1,2 , 3)":                         "a IN (1, 2, 3)",
		"a not in ('x')":                         "a NOT IN ('x')",
		"a between 1 and 2 and b":                "a BETWEEN 1 AND 2 AND b",
		"a not between x and y or c":             "a NOT BETWEEN x AND y OR c",
		"5 between a and 9":                      "5 BETWEEN a AND 9",
		"a is null or b is not null":             "a IS NULL OR b IS NOT NULL",
		"name like 'x%'":                         "name LIKE 'x%'",
		"a not like 'x%'":                        "a NOT LIKE 'x%'",
		"a like 'x%%%' and not b like '%'":       "a LIKE 'x%' AND NOT b LIKE '%'",
		"a like '%%_x%_%__y'":                    "a LIKE '_%x___%y'",
		"a like 'x' or a like ''":                "a LIKE 'x' OR a LIKE ''",
		`a like '\%\_\\%%'`:                      `a LIKE '\%\_\\%'`,
		"TrUe and false":                         "TRUE AND FALSE",
		"s = 'it''s'":                            "s = 'it''s'",
		`"a b" = "c""d"`:                         `"a b" = "c""d"`,
		`"plain" = 1`:                            "plain = 1",
		`"and" = 1`:                              `"and" = 1`,
		`user.address."zip code" = 1`:            `user.address."zip code" = 1`,
		"größe > 1":                              "größe > 1",
		"date = 1 and time = 2":                  "date = 1 AND time = 2",
		"timestamp > 'x' or x = 'y'":             "timestamp > 'x' OR x = 'y'",
		"d > date '2026-10-01'":                  "d > DATE '2026-10-01'",
		"d > date\n'2026-10-01'":                 "d > DATE '2026-10-01'",
		"t = time '9:30'":                        "",
		"t = time '09:30'":                       "t = TIME '09:30:00'",
		"t = time '09:30:00.1200'":               "t = TIME '09:30:00.12'",
		"t = timestamp '2026-10-01'":             "t = TIMESTAMP '2026-10-01 00:00:00'",
		"t = timestamp '2026-10-01T12:00:00Z'":   "t = TIMESTAMP '2026-10-01 12:00:00+00:00'",
		"t = timestamp '2026-10-01 01:00+02'":    "t = TIMESTAMP '2026-09-30 23:00:00+00:00'",
		"t = timestamp '2026-12-31 23:00 -0130'": "t = TIMESTAMP '2027-01-01 00:30:00+00:00'",
		"b = x'00fF'":                            "b = X'00ff'",
		"b = X''":                                "b = X''",
		"a = -5 or a = +5 or a = - 5":            "a = -5 OR a = 5 OR a = -5",
		"a = 007":                                "a = 7",
		"a = -0":                                 "a = 0",
		"a = 1.50":                               "a = 1.5",
		"a = 1e3":                                "a = 1000",
		"a = 1.5E-3":                             "a = 0.0015",
		"a = .5":                                 "a = 0.5",
		"a = 5.":                                 "a = 5",
		"a = 1e300":                              "a = 1E+300",
		"a = 12.5e-20":                           "a = 1.25E-19",
		"a = 0e99":                               "a = 0",
		"a<-5":                                   "a < -5",
	} {
		t.Run(text, func(t *testing.T) {
			e, err := Parse(text)
			if want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, e.String())
			again, err := Parse(want)
			require.NoError(t, err)
			require.Equal(t, want, again.String())
		})
	}
}

func TestParseFaultsCarryPositions(t *testing.T) {
	deep := strings.Repeat("(", maxDepth+1) + "a" + strings.Repeat(")", maxDepth+1)
	for text, want := range map[string]struct {
		position int
		message  string
	}{
		"":                                       {1, "the filter is empty"},
		" \n":                                    {1, "the filter is empty"},
		"a = ":                                   {5, "ends too early: expected a column or a literal"},
		"a == 1":                                 {4, "equality is written ="},
		"a = NULL":                               {5, "write IS NULL"},
		"a IN (1, NULL)":                         {10, "write IS NULL"},
		"a IN ()":                                {7, "expected a literal"},
		"a IN 1":                                 {6, "expected a list in parentheses"},
		"a IS 3":                                 {6, "expected NULL or NOT NULL"},
		"a b":                                    {3, "unexpected b"},
		"a AND":                                  {6, "expected a condition"},
		"like = 3":                               {1, "unexpected LIKE: expected a condition; the name of a column that is a keyword is written in double quotes"},
		"a = like":                               {5, "expected a column or a literal; the name of a column that is a keyword"},
		"(a = 1":                                 {7, "a closing parenthesis"},
		"a = 1)":                                 {6, "unexpected )"},
		"a. = 1":                                 {4, "expected a name"},
		"a = 'x":                                 {5, "string that starts here is not closed"},
		`ä = 1 AND "x = 1`:                       {11, "quoted name that starts here is not closed"},
		"a = 1 ; b":                              {7, "unexpected character ';'"},
		"a = 1 && b = 2":                         {7, "unexpected character '&': conditions are joined by AND"},
		"a = 1 || b = 2":                         {12, "conditions are joined by AND and OR"},
		"a = 1 | b = 2":                          {7, "unexpected character '|': conditions are joined by OR"},
		"a = `b`":                                {5, "names are quoted with \""},
		"a = :b":                                 {5, "write the value itself"},
		"a IS NOT nul":                           {10, "expected NULL or NOT NULL"},
		"a = 1 annd b = 2":                       {7, "unexpected annd"},
		"1 = 1":                                  {1, "needs a column"},
		"1 IN (1)":                               {1, "needs a column"},
		"1 IS NULL":                              {1, "needs a column"},
		"5":                                      {1, "a number is not a condition by itself"},
		"a AND 'x'":                              {7, "a string is not a condition by itself"},
		"(a = 1) = DATE 'x'":                     {11, "not a date"},
		"(a = 1) IN (TIME 'y'":                   {21, "ends too early"},
		"a = DATE 'x' AND":                       {17, "expected a condition"},
		"a NOT b":                                {7, "unexpected b"},
		"a LIKE 5":                               {8, "LIKE takes a string"},
		`a LIKE 'x\y%'`:                          {8, "a backslash"},
		`a LIKE 'x\'`:                            {8, "a backslash"},
		`ä IN (1) OR s NOT LIKE '%\a'`:           {24, "a backslash"},
		`"" = 1`:                                 {1, "name is empty"},
		"d = DATE '2026-02-29'":                  {5, "no such day"},
		"d = DATE '20260229'":                    {5, "YYYY-MM-DD"},
		"d = DATE '2026-02-01x'":                 {5, "more follows"},
		"d = DATE '0000-01-01'":                  {5, "no such day"},
		"t = TIME '24:00:00'":                    {5, "no such time"},
		"t = TIME '12:0'":                        {5, "HH:MM:SS"},
		"t = TIME '12:00:0'":                     {5, "HH:MM:SS"},
		"t = TIME '12:00:00.'":                   {5, "1 to 9 digits"},
		"t = TIME '12:00Z'":                      {5, "more follows"},
		"t = TIMESTAMP '2026-10-01x12:00'":       {5, "a space or T"},
		"t = TIMESTAMP '2026-10-01 12:00+25:00'": {5, "offset"},
		"t = TIMESTAMP '2026-10-01 12:00 UTC'":   {5, "offset"},
		"t = TIMESTAMP '0001-01-01 00:00+01:00'": {5, "outside the years"},
		"b = X'0'":                               {5, "even number of hexadecimal digits"},
		"b = X'0g'":                              {5, "even number of hexadecimal digits"},
		"a = 1e9999":                             {5, "exponent"},
		"a = 1e99999999999999999":                {5, "exponent"},
		"a = 1" + strings.Repeat("2", maxDigits): {5, "more than 1000 digits"},
		deep:                                     {maxDepth + 1, "nested more than 200 deep"},
	} {
		_, err := Parse(text)
		require.Error(t, err, text)
		e := fault.As(err)
		require.Equal(t, fault.Invalid, e.Kind, text)
		require.Len(t, e.Faults, 1, text)
		require.Equal(t, want.position, e.Faults[0].Position, "%s: %v", text, err)
		require.Contains(t, e.Faults[0].Message, want.message, text)
	}
}

func TestMisspeltKeywordsGetSuggestions(t *testing.T) {
	for text, want := range map[string]string{"a IS NOT nul": "NULL", "a = 1 annd b = 2": "AND", "a bteween 1 AND 2": "BETWEEN", "a b": ""} {
		_, err := Parse(text)
		require.Equal(t, want, fault.As(err).Faults[0].Nearest, text)
	}
}

func TestParseReportsAllFaultyLiterals(t *testing.T) {
	_, err := Parse("d = DATE 'x' OR t = TIME 'y' OR 5")
	require.Len(t, fault.As(err).Faults, 3)
}

func TestParseLimits(t *testing.T) {
	for name, text := range map[string]string{
		"text":      "a = '" + strings.Repeat("x", MaxText) + "'",
		"canonical": strings.Repeat("a=1 OR ", MaxText/8) + "a=1",
		"encoding":  "a = '\xff'",
	} {
		_, err := Parse(text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
	}
	deep := strings.Repeat("(", maxDepth) + "a" + strings.Repeat(")", maxDepth)
	e, err := Parse(deep)
	require.NoError(t, err)
	require.Equal(t, "a", e.String())
	nots, err := Parse(strings.Repeat("NOT ", 10_001) + "a")
	require.NoError(t, err)
	require.Equal(t, "NOT a", nots.String())
	long, err := Parse("a IN (1" + strings.Repeat(", 1", 15_000) + ")")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, long.Columns())
}

func TestColumnsAndConjuncts(t *testing.T) {
	e, err := Parse(`b = 1 AND (a > b OR "x y" IN (1)) AND s.t IS NULL AND 3 < c AND d BETWEEN e AND 4 AND flag AND b = 2`)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a", "x y", "s", "c", "d", "e", "flag"}, e.Columns())
	parts := e.Conjuncts()
	require.Len(t, parts, 7)
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.String()
	}
	texts[1] = "(" + texts[1] + ")"
	require.Equal(t, e.String(), strings.Join(texts, " AND "))
	require.Equal(t, `a > b OR "x y" IN (1)`, parts[1].String())

	var none *Expr
	require.Empty(t, none.String())
	require.Empty(t, none.Columns())
	require.Empty(t, none.Conjuncts())
}
