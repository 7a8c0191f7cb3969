package decode

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/policy"
)

// maxRules is the maximum number of rules of a policy. Each call looks at all rules.
const maxRules = 1000

// Policy decodes a policy. It completes the names of tables in the policy. It returns all faults
// together, with their lines.
func Policy(root *yaml.Node, names policy.Names) (*policy.Policy, error) {
	d := newDecoder()
	out := &policy.Policy{Names: names}
	object(d, d.yaml(root, 0, maxFileNodes), out, []field[policy.Policy]{
		{name: "groups", read: func(d *decoder, at place, out *policy.Policy) { out.Groups = readLists(d, at) }},
		{name: "rules", must: true, read: func(d *decoder, at place, out *policy.Policy) {
			out.Rules = list(d, at, maxRules, func(d *decoder, at place) policy.AccessRule { return readRule(d, at, names) })
		}},
	})
	for i, r := range out.Rules {
		for k, group := range r.Groups {
			if _, known := out.Groups[group]; !known {
				var groups []string
				for name := range out.Groups {
					groups = append(groups, name)
				}
				slices.Sort(groups)
				path := "rules" + indexed(i) + ".groups" + indexed(k)
				d.add(0, fault.Field{Field: path, Message: "there is no group " + group + " under groups", Nearest: fault.Nearest(group, groups)})
			}
		}
	}
	return out, d.err()
}

// readRule decodes one rule.
func readRule(d *decoder, at place, names policy.Names) policy.AccessRule {
	var out policy.AccessRule
	object(d, at, &out, []field[policy.AccessRule]{
		{name: "subjects", also: []string{"subject", "users", "who"}, read: func(d *decoder, at place, out *policy.AccessRule) { out.Subjects = d.names(at) }},
		{name: "groups", also: []string{"group"}, read: func(d *decoder, at place, out *policy.AccessRule) { out.Groups = d.names(at) }},
		{name: "claims", also: []string{"claim"}, read: func(d *decoder, at place, out *policy.AccessRule) { out.Claims = readLists(d, at) }},
		{name: "read", also: []string{"datasets"}, read: func(d *decoder, at place, out *policy.AccessRule) { out.Read = d.names(at) }},
		{name: "inline", read: func(d *decoder, at place, out *policy.AccessRule) { out.Inline = readPatterns(d, at, names) }},
		{name: "write", also: []string{"writes"}, read: func(d *decoder, at place, out *policy.AccessRule) { out.Write = readPatterns(d, at, names) }},
		{name: "allow", also: []string{"actions"}, read: func(d *decoder, at place, out *policy.AccessRule) {
			out.Allow = list(d, at, maxRules, func(d *decoder, at place) policy.Permission {
				return choice(d, at, policy.Actions())
			})
		}},
		{name: "tables", read: func(d *decoder, at place, out *policy.AccessRule) { out.Tables = readLimits(d, at, names) }},
	})
	if len(out.Subjects)+len(out.Groups)+len(out.Claims) == 0 && d.sound(at.path) {
		d.fail(at.path, `it does not say whom it is for: give subjects, groups or claims; subjects: ["*"] is for all clients`)
	}
	writes := slices.ContainsFunc(out.Allow, policy.Permission.Writes)
	switch {
	case !d.sound(at.path):
	case writes && len(out.Write) == 0:
		d.fail(at.pathOf("allow"), `it allows to write and does not say where: give write, patterns of tables such as "features.*"`)
	case !writes && len(out.Write) > 0:
		d.fail(at.pathOf("write"), "it has no effect without stage, publish or promote in allow")
	}
	return out
}

// names decodes a list of names or patterns, which is not empty.
func (d *decoder) names(at place) []string {
	out := list(d, at, maxColumns, (*decoder).name)
	if at.kind == kindList && len(out) == 0 && len(at.items) == 0 {
		d.fail(at.path, "the list is empty; leave the field out")
	}
	return out
}

// readLists decodes a mapping from names to lists of names.
func readLists(d *decoder, at place) map[string][]string {
	out := map[string][]string{}
	if at.kind != kindObject {
		d.mismatch(at, "an object")
		return out
	}
	for _, m := range at.members {
		out[m.name] = d.names(at.member(m))
	}
	return out
}

// readPatterns decodes patterns of tables' names.
func readPatterns(d *decoder, at place, names policy.Names) []string {
	out := d.names(at)
	for i, text := range out {
		pattern, wrong := names.Pattern(text)
		if wrong != "" && d.sound(at.path+indexed(i)) {
			d.fail(at.path+indexed(i), "%q: %s", text, wrong)
		}
		out[i] = pattern
	}
	return out
}

// readLimits decodes the tables of which a rule lets clients read only a part.
func readLimits(d *decoder, at place, names policy.Names) []policy.TableLimits {
	var out []policy.TableLimits
	if at.kind != kindObject {
		d.mismatch(at, "an object")
		return out
	}
	seen := map[string]string{}
	for _, m := range at.members {
		p := at.member(m)
		one := policy.TableLimits{Name: m.name, Line: d.line(p.path)}
		full := strings.ToLower(names.Full(m.name))
		if other := seen[full]; other != "" {
			d.fail(p.path, "it is the table %s, which is already there", other)
		}
		seen[full] = m.name
		if !strings.Contains(m.name, ".") || strings.Contains(m.name, "*") {
			d.fail(p.path, `it is not the name of one table, such as ml.impressions`)
		}
		object(d, p, &one, []field[policy.TableLimits]{
			{name: "withheld", also: []string{"columns", "hidden"}, read: func(d *decoder, at place, out *policy.TableLimits) { out.Withheld = d.names(at) }},
			{name: "filter", also: []string{"rows", "where"}, read: func(d *decoder, at place, out *policy.TableLimits) { out.Filter = d.filter(at) }},
		})
		if one.IsZero() && d.sound(p.path) {
			d.fail(p.path, "it limits nothing: give withheld, a list of columns, or filter, which selects the rows that may be read")
		}
		out = append(out, one)
	}
	return out
}
