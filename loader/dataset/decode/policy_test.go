package decode

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/loader/policy"
)

// policyOf decodes the text of a policy of a server with the catalogs lake, the default, and other.
func policyOf(t *testing.T, text string) (*policy.Policy, error) {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &root))
	return Policy(&root, policy.Names{Catalogs: []string{"lake", "other"}, Default: "lake"})
}

// spec: access-11
func TestPolicyIsDecoded(t *testing.T) {
	p, err := policyOf(t, `
groups: {ads: [ranker, "sweep-*"]}
rules:
  - groups: [ads]
    claims: {team: [ads]}
    read: [home, "ads_*"]
    inline: [ml.*, other.ml.clicks]
    write: [features.ads_*]
    allow: [explain, stage]
    tables:
      ml.impressions: {withheld: [user_id], filter: "country = 'DE'"}
  - subjects: ["*"]
`)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"ads": {"ranker", "sweep-*"}}, p.Groups)
	require.Len(t, p.Rules, 2)
	r := p.Rules[0]
	require.Equal(t, []string{"lake.ml.*", "other.ml.clicks"}, r.Inline, "the default catalog is completed")
	require.Equal(t, []string{"lake.features.ads_*"}, r.Write)
	require.Equal(t, []policy.Permission{policy.Explain, policy.Stage}, r.Allow)
	require.Equal(t, []string{"user_id"}, r.Tables[0].Withheld)
	require.Equal(t, "country = 'DE'", r.Tables[0].Filter.String())
	require.Equal(t, 11, r.Tables[0].Line)
}

// A policy with a fault is refused, and each fault has its line.
//
// spec: access-11
func TestFaultsOfPoliciesNameTheirLines(t *testing.T) {
	for text, says := range map[string]string{
		"rules: [{subjects: [a], reads: [b]}]":                                                   `rules[0].reads: unknown field (line 1) (did you mean "read"?)`,
		"rule: []":                                                                               `rule: unknown field (line 1) (did you mean "rules"?)`,
		"groups: {}":                                                                             "rules: missing",
		"rules:\n- read: [a]":                                                                    "rules[0]: it does not say whom it is for",
		"rules:\n- subjects: []\n  read: [a]":                                                    "rules[0].subjects: the list is empty; leave the field out (line 2)",
		"groups: {ads: [a]}\nrules:\n- groups: [asd]":                                            `rules[0].groups[0]: there is no group asd under groups (line 3) (did you mean "ads"?)`,
		"rules:\n- subjects: [a]\n  allow: [explian]":                                            `unknown value "explian"; known: explain, verify, cache, status, stage, publish, promote (line 3) (did you mean "explain"?)`,
		"rules:\n- subjects: [a]\n  allow: [promote]":                                            "it allows to write and does not say where",
		"rules:\n- subjects: [a]\n  allow: [publish]":                                            "rules[0].allow: it allows to write and does not say where",
		"rules:\n- subjects: [a]\n  write: [\"ml.*\"]":                                           "rules[0].write: it has no effect without stage, publish or promote in allow",
		"rules:\n- subjects: [a]\n  allow: [stage]\n  write: [events]":                           "it has no namespace",
		"rules:\n- subjects: [a]\n  inline: [events]":                                            "it has no namespace",
		"rules:\n- subjects: [a]\n  inline: [\"*.events\"]":                                      `its first part has a "*"`,
		"rules:\n- subjects: [a]\n  inline: [other.*]":                                           `other is a catalog, and would be read as a namespace: write "other.*.*" or "lake.other.*"`,
		"rules:\n- subjects: [a]\n  tables: {ml.a: {}}":                                          "it limits nothing",
		"rules:\n- subjects: [a]\n  tables:\n    ml.*: {withheld: [a]}":                          "it is not the name of one table, such as ml.impressions (line 4)",
		"rules:\n- subjects: [a]\n  tables:\n    ml.a: {filter: \"a = \"}":                       "rules[0].tables[\"ml.a\"].filter",
		"rules:\n- subjects: [a]\n  tables: {ml.a: {withheld: [a]}, lake.ML.a: {withheld: [b]}}": "it is the table ml.a, which is already there",
		"rules: 7":                               "must be a list",
		"rules:\n- subjects: [a]\n  claims: [a]": "claims: must be an object",
	} {
		_, err := policyOf(t, text)
		require.ErrorContains(t, err, says, text)
	}
}
