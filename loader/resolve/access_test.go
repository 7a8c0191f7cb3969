package resolve_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// limited returns the rights of a rule that limits tables.
func limited(tables ...policy.TableLimits) policy.Rights {
	p := &policy.Policy{Rules: []policy.AccessRule{{Subjects: []string{"*"}, Read: []string{"*"}, Inline: []string{"*"}, Tables: tables}}}
	rights, _ := p.Read(identity.Caller{}, "d")
	return rights
}

// clicks and users are tables; the name of a user's mail was email before, and another column is called mail in the first schema.
func clicks() *catalog.Table {
	return &catalog.Table{Name: "ml.clicks", Fields: []catalog.Field{
		{ID: 1, Name: "user", Type: arrow.BinaryTypes.String}, {ID: 2, Name: "item", Type: arrow.PrimitiveTypes.Int64}, {ID: 3, Name: "city", Type: arrow.BinaryTypes.String},
	}, Lineage: catalog.LineageFields()}
}

func users() *catalog.Table {
	return &catalog.Table{
		Name: "ml.users", Fields: []catalog.Field{
			{ID: 1, Name: "uid", Type: arrow.BinaryTypes.String}, {ID: 5, Name: "mail", Type: arrow.BinaryTypes.String}, {ID: 6, Name: "city", Type: arrow.BinaryTypes.String},
		},
		OtherNames: []catalog.OtherName{{ID: 5, Name: "email", Current: true}, {ID: 9, Name: "city", Current: true}, {ID: 8, Name: "phone"}},
	}
}

// named returns the dataset d, or one that a client sent.
func named(name string, s dataset.Staging) dataset.Dataset {
	s.Table, s.Name, s.Key = "ml.users", "users", []dataset.KeyPair{{Training: "user", Staging: "uid"}}
	return dataset.Dataset{Name: name, Key: []string{"user"}, Training: dataset.Training{Table: "ml.clicks"}, Staging: []dataset.Staging{s}}
}

func outputs(t *testing.T, d dataset.Dataset, rights policy.Rights) []string {
	t.Helper()
	r, err := resolve.BindFor(d, clicks(), []*catalog.Table{users()}, rights)
	require.NoError(t, err)
	names := []string{}
	for _, o := range r.Outputs {
		names = append(names, o.Name)
	}
	return names
}

// spec: access-14
func TestWithheldColumnsAreNoOutputs(t *testing.T) {
	prefixed := named("d", dataset.Staging{Prefix: "u_"})
	require.Equal(t, []string{"user", "item", "city", "u_mail", "u_city"}, outputs(t, prefixed, policy.Rights{}))
	for name, c := range map[string]struct {
		limits policy.TableLimits
		d      dataset.Dataset
		left   []string
	}{
		"a training column":        {policy.TableLimits{Name: "ml.clicks", Withheld: []string{"item"}}, prefixed, []string{"user", "city", "u_mail", "u_city"}},
		"a key, which still joins": {policy.TableLimits{Name: "ml.clicks", Withheld: []string{"user"}}, prefixed, []string{"item", "city", "u_mail", "u_city"}},
		"a staging column":         {policy.TableLimits{Name: "ml.users", Withheld: []string{"mail"}}, prefixed, []string{"user", "item", "city", "u_city"}},
		"a column by another name": {policy.TableLimits{Name: "ml.users", Withheld: []string{"email", "mail"}}, prefixed, []string{"user", "item", "city", "u_city"}},
		"a column that was dropped": {
			policy.TableLimits{Name: "ml.users", Withheld: []string{"phone"}},
			prefixed,
			[]string{"user", "item", "city", "u_mail", "u_city"},
		},
		"a key of another table that equals one": {
			policy.TableLimits{Name: "ml.clicks", Withheld: []string{"user"}},
			named("d", dataset.Staging{Columns: []dataset.Column{{Column: "uid"}, {Column: "mail"}}}),
			[]string{"item", "city", "mail"},
		},
		"a column that replaces another": {
			policy.TableLimits{Name: "ml.users", Withheld: []string{"city"}},
			named("d", dataset.Staging{Join: rule.Overlay, Columns: []dataset.Column{{Column: "city"}}}),
			[]string{"user", "item"},
		},
		"a column that is replaced": {
			policy.TableLimits{Name: "ml.clicks", Withheld: []string{"city"}},
			named("d", dataset.Staging{Join: rule.Overlay, Columns: []dataset.Column{{Column: "city"}}}),
			[]string{"user", "item"},
		},
	} {
		require.Equal(t, c.left, outputs(t, c.d, limited(c.limits)), name)
	}
	lineage := limited(policy.TableLimits{Name: "ml.clicks", Withheld: []string{catalog.RowIDColumn}})
	r, err := resolve.BindFor(prefixed, clicks(), []*catalog.Table{users()}, lineage)
	require.NoError(t, err)
	_, err = r.Select([]dataset.Column{{Column: catalog.UpdatedColumn}})
	require.NoError(t, err)
	_, err = r.Select([]dataset.Column{{Column: catalog.RowIDColumn}})
	require.ErrorContains(t, err, `the dataset has no column "_row_id"`)
}

// The error for a column that is withheld is that of a column that does not exist or that no entry offers. It says that the policy
// may withhold it.
func TestWithheldColumnsLookLikeUnknownOnes(t *testing.T) {
	d := named("d", dataset.Staging{Columns: []dataset.Column{}})
	r, err := resolve.BindFor(d, clicks(), []*catalog.Table{users()}, limited(policy.TableLimits{Name: "ml.clicks", Withheld: []string{"city"}}))
	require.NoError(t, err)
	for _, name := range []string{"city", "mail", "zzzzzz"} {
		_, err = r.Select([]dataset.Column{{Column: name}})
		require.Equal(t, []fault.Field{{Field: "columns[0]", Message: `the dataset has no column "` + name + `", or the server's policy withholds it from this client`}}, fault.As(err).Faults)
	}
}

// A dataset of a client is not aligned by a column that is withheld, nor by one of its partition fields.
//
// spec: access-14
func TestWithheldColumnsAlignNothing(t *testing.T) {
	training, staging := clicks(), users()
	training.Specs = map[int]catalog.Spec{0: {{Source: 3, Name: "city_part", Transform: catalog.Transform{Kind: catalog.Identity}}}}
	rights := limited(policy.TableLimits{Name: "ml.clicks", Withheld: []string{"city"}}, policy.TableLimits{Name: "ml.users", Withheld: []string{"mail"}})
	for _, c := range []struct {
		training, staging string
		refused           bool
	}{{"city", "uid", true}, {"city_part", "uid", true}, {"item", "mail", true}, {"item", "uid", false}} {
		for _, of := range []string{"", "d"} {
			d := named(of, dataset.Staging{Prefix: "u_", Align: &dataset.Align{Training: c.training, Staging: c.staging}})
			_, err := resolve.BindFor(d, training, []*catalog.Table{staging}, rights)
			require.Equal(t, c.refused && of == "", err != nil, "%q %v", of, c)
		}
	}
}

// A policy that does not fit a table refuses the table, and the client's error shows nothing of it.
//
// spec: access-17
func TestPolicyThatDoesNotFitRefusesTheDataset(t *testing.T) {
	for name, limits := range map[string]policy.TableLimits{
		"no such column":           {Name: "ml.users", Withheld: []string{"secretname"}},
		"no such column of a rule": {Name: "ml.users", Filter: datasettest.Filter("secretname = 1")},
		"another type":             {Name: "ml.users", Filter: datasettest.Filter("mail = 77")},
		"the name of another column in the current schema": {Name: "ml.users", Filter: datasettest.Filter("city = 'secretname'")},
	} {
		for _, of := range []string{"d", ""} {
			_, err := resolve.BindFor(named(of, dataset.Staging{Prefix: "u_"}), clicks(), []*catalog.Table{users()}, limited(limits))
			require.Equal(t, fault.Forbidden, fault.KindOf(err), name)
			require.NotContains(t, err.Error(), "secretname", name)
			require.NotContains(t, err.Error(), "77", name)
			require.Error(t, fault.As(err).Err, name)
		}
	}
}

// The filter of the rights may name a withheld column. It joins the relation's filter and its dataset.
//
// spec: access-15
func TestRowsOfRightsAreFiltered(t *testing.T) {
	rights := limited(
		policy.TableLimits{Name: "ml.clicks", Withheld: []string{"city"}, Filter: datasettest.Filter("city = 'Bern' OR city = 'Genf'")},
		policy.TableLimits{Name: "ml.users", Filter: datasettest.Filter("mail IS NOT NULL")},
	)
	for _, of := range []string{"d", ""} {
		d := named(of, dataset.Staging{Prefix: "u_", Filter: datasettest.Filter("uid = 'a' OR uid = 'b'")})
		d.Training.Filter = datasettest.Filter("item = 1 OR item = 2")
		r, err := resolve.BindFor(d, clicks(), []*catalog.Table{users()}, rights)
		require.NoError(t, err)
		require.Equal(t, "(item = 1 OR item = 2) AND (city = 'Bern' OR city = 'Genf')", r.Filter.String())
		require.Equal(t, "mail IS NOT NULL AND (uid = 'a' OR uid = 'b')", r.Staging[0].Rows.String(), "the cheaper condition is first")
		require.Equal(t, "(uid = 'a' OR uid = 'b') AND mail IS NOT NULL", r.Staging[0].Filter.String())
		require.Equal(t, r.Dataset.Training.Filter.String(), r.Filter.String())
		require.Equal(t, r.Dataset.Staging[0].Filter.String(), r.Staging[0].Filter.String())
		require.NotEqual(t, d.Digest(), r.Dataset.Digest())
		require.Empty(t, r.TrainingSchema().FieldIndices("city"))
	}
}

// A client sees a table without withheld columns and without values that were promoted from limited tables, and no table whose rows its
// rights filter.
//
// spec: stats-71, stats-72
func TestVisibleColumnsOfTables(t *testing.T) {
	const name = "ml.clicks"
	promoted := clicks()
	from, city := dataset.ColumnOrigin{Table: "ml.users", Entry: "users", Name: "city"}, promoted.Fields[len(promoted.Fields)-1]
	require.Equal(t, "city", city.Name)
	promoted.Origins = map[int]dataset.ColumnOrigin{city.ID: from}
	mail := policy.TableLimits{Name: "ml.users", Withheld: []string{"mail"}}
	for what, c := range map[string]struct {
		table  *catalog.Table
		rights policy.Rights
		want   []string
	}{
		"all":                             {clicks(), policy.Rights{}, []string{"user", "item", "city"}},
		"a withheld column":               {clicks(), limited(policy.TableLimits{Name: name, Withheld: []string{"item"}}), []string{"user", "city"}},
		"another table":                   {clicks(), limited(mail), []string{"user", "item", "city"}},
		"a column from another table":     {promoted, limited(mail), []string{"user", "item"}},
		"a column, if all of it is shown": {promoted, policy.Rights{}, []string{"user", "item", "city"}},
	} {
		seen, hidden, err := resolve.VisibleTable(name, c.table, c.rights)
		require.NoError(t, err, what)
		var got []string
		for _, f := range seen.Fields {
			if !hidden[f.ID] {
				got = append(got, f.Name)
			}
		}
		require.Equal(t, c.want, got, what)
		require.Equal(t, len(c.want) < len(c.table.Fields), len(hidden) > 0, what)
	}
	for what, limits := range map[string]policy.TableLimits{
		"a filter": {Name: name, Filter: datasettest.Filter("item = 1")}, "a column that no schema has": {Name: name, Withheld: []string{"itme"}},
	} {
		_, _, err := resolve.VisibleTable(name, clicks(), limited(limits))
		require.Equal(t, fault.Forbidden, fault.KindOf(err), what)
	}
}
