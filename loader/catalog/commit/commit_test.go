package commit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

func at(text string) time.Time {
	out, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return out
}

func TestTokensBearTheirTime(t *testing.T) {
	t.Parallel()
	when := at("2026-03-01T13:30:00.789+01:00")
	token := commit.NewToken(when, "job-7")
	require.Equal(t, "20260301T123000.789Z-job-7", token)
	got, timed := commit.TokenTime(token)
	require.True(t, timed)
	require.True(t, got.Equal(when))
	one, other := commit.NewToken(when, ""), commit.NewToken(when, "")
	require.NotEqual(t, one, other)
	for _, text := range []string{
		"job-7", "20260301T123000.789Z", "20260301T123000.789Z-", "20260301T123000.789Z_job", "20261301T123000.789Z-job", "20260301T123000Z-job",
	} {
		_, timed := commit.TokenTime(text)
		require.False(t, timed, text)
	}
}

// spec: write-68
func TestAnyTextIsAToken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "history 2026-11-26", "scheduled__2026-11-26T00:00:00+00:00", "Zürich/1", strings.Repeat("n", 200)} {
		require.NoError(t, commit.CheckToken(text, at("2026-03-01T12:30:00Z")), text)
	}
	for _, text := range []string{"", "a\nb", "a\x00", "\xff", strings.Repeat("n", 201)} {
		err := commit.CheckToken(text, time.Time{})
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), text)
		require.ErrorContains(t, err, "is not a token of a change; write a text of at most 200 bytes")
	}
}

// spec: write-23
func TestFilesAreKnownByName(t *testing.T) {
	t.Parallel()
	prefix := commit.FilePrefix("20260301T123000.789Z-job-7")
	require.Regexp(t, "^penstock-[0-9a-f]{16}$", prefix)
	require.NotEqual(t, prefix, commit.FilePrefix("20260301T123000.789Z-job-8"))
	for _, name := range []string{prefix + "-m0.avro", "00012-" + commit.MetadataID() + ".metadata.json", "00012-" + commit.MetadataID() + ".gz.metadata.json"} {
		require.True(t, commit.Owned("s3://lake/ml/events/metadata/"+name), name)
	}
	for _, name := range []string{
		"m0.avro", "00012-70656e73-746f-4000-8000-000000000000.metadata.json", "00012-" + commit.MetadataID() + ".parquet",
		"x-" + prefix + "-m0.avro", "penstock-1.avro", "penstock-features-2026-11.parquet", prefix[:len(prefix)-1] + "-m0.avro", strings.ToUpper(prefix) + "-m0.avro", prefix + "0-m0.avro",
	} {
		require.False(t, commit.Owned("s3://penstock-lake/penstock-1/metadata/"+name), name)
	}
	one, other := commit.MetadataID(), commit.MetadataID()
	require.NotEqual(t, one, other)
}

func TestUncertain(t *testing.T) {
	t.Parallel()
	under := fault.New(fault.Unavailable, "no answer: %w", context.DeadlineExceeded).WithRemedy("try again")
	err := commit.AsUncertain(under)
	require.True(t, commit.Uncertain(fault.Op(fmt.Errorf("x: %w", err), "commit")))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, under.Error(), err.Error())
	require.False(t, commit.Uncertain(under))
	require.False(t, commit.Uncertain(nil))
}

func TestChangesThatContradictThemselves(t *testing.T) {
	t.Parallel()
	now := at("2026-03-01T12:30:00Z")
	good := func() commit.Change {
		return commit.Change{
			Table: "ml.events", Token: commit.NewToken(now.Add(commit.MaxAhead), "a"), Mode: commit.Overwrite, Base: 7, Remove: []string{"a"},
			Add:     []commit.DataFile{{Location: "b", Rows: 1, Bytes: 1}, {Location: "c", Rows: 1, Bytes: 1}},
			Columns: []commit.NewColumn{{ID: 2, Name: "f", Type: "long"}},
		}
	}
	require.NoError(t, good().Check(now))
	negative := int64(-1)
	for text, change := range map[string]func(*commit.Change){
		"the change names no table":                func(c *commit.Change) { c.Table = "" },
		"is not a token":                           func(c *commit.Change) { c.Token = "x\n" },
		"is of a time that comes more than":        func(c *commit.Change) { c.Token = commit.NewToken(now.Add(commit.MaxAhead+time.Millisecond), "a") },
		"an append removes no files":               func(c *commit.Change) { c.Mode = commit.Append },
		"does not say which snapshot":              func(c *commit.Change) { c.Base = 0 },
		"7 is not a mode":                          func(c *commit.Change) { c.Mode = 7 },
		"main begins with the first snapshot":      func(c *commit.Change) { c.Begin = 7 },
		"the change is empty":                      func(c *commit.Change) { c.Add, c.Remove, c.Columns = nil, nil, nil },
		"only rewrites rows, but adds 2":           func(c *commit.Change) { c.Mode, c.Remove = commit.Rewrite, nil },
		"is written from the change's token":       func(c *commit.Change) { c.Summary = map[string]string{commit.SummaryToken: "x"} },
		"add: a file has no location":              func(c *commit.Change) { c.Add[1].Location = "" },
		"add: file b is given twice":               func(c *commit.Change) { c.Add[1].Location = "b" },
		"remove: file a is given twice":            func(c *commit.Change) { c.Remove = []string{"a", "a"} },
		"file a is added and removed":              func(c *commit.Change) { c.Add[0].Location = "a" },
		"file b has -1 rows":                       func(c *commit.Change) { c.Add[0].Rows = -1 },
		"file b has 1 rows and 0 bytes":            func(c *commit.Change) { c.Add[0].Bytes = 0 },
		"has a negative sequence number":           func(c *commit.Change) { c.Add[0].Sequence = -1 },
		"has a negative sequence number or row id": func(c *commit.Change) { c.Add[0].FirstRow = &negative },
		`column 0 ("") needs an id`:                func(c *commit.Change) { c.Columns[0].Name = "" },
		`column "f" is required`:                   func(c *commit.Change) { c.Columns[0].Required = true },
		`column "f" or its id 2 is given twice`:    func(c *commit.Change) { c.Columns = append(c.Columns, c.Columns[0]) },
	} {
		one := good()
		change(&one)
		err := one.Check(now)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), text)
		require.ErrorContains(t, err, text)
	}
	deletes := func() commit.Change {
		c := good()
		c.Add[0].Sequence = 5
		c.AddDeletes = []catalog.DeleteFile{
			{Kind: catalog.PositionDeletes, Location: "d", Data: "b", Rows: 1, Bytes: 9, Sequence: 5},
			{Kind: catalog.DeletionVector, Location: "p", Data: "c", Rows: 1, Bytes: 9, Offset: 4, Length: 5},
		}
		c.RemoveDeletes = []string{"e"}
		return c
	}
	require.NoError(t, deletes().Check(now))
	for text, change := range map[string]func(c *commit.Change, position, vector *catalog.DeleteFile){
		"an append removes no files and has no deletes": func(c *commit.Change, _, _ *catalog.DeleteFile) {
			c.Mode, c.Remove, c.RemoveDeletes = commit.Append, nil, nil
		},
		"an append removes no files and": func(c *commit.Change, _, _ *catalog.DeleteFile) {
			c.Mode, c.Remove, c.AddDeletes = commit.Append, nil, nil
		},
		"does not say which snapshot":                    func(c *commit.Change, _, _ *catalog.DeleteFile) { c.Base, c.Remove = 0, nil },
		"leaves 2 rows out, but only a rewrite":          func(c *commit.Change, _, _ *catalog.DeleteFile) { c.DroppedRows = 2 },
		"leaves -1 rows out":                             func(c *commit.Change, _, _ *catalog.DeleteFile) { c.Mode, c.DroppedRows = commit.Rewrite, -1 },
		"remove_deletes: file e is given twice":          func(c *commit.Change, _, _ *catalog.DeleteFile) { c.RemoveDeletes = []string{"e", "e"} },
		"a delete file has no location":                  func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Location = "" },
		"delete file e is added and removed":             func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Location = "e" },
		`is of data file "x", which the change does not`: func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Data = "x" },
		"data file c has two deletion vectors": func(_ *commit.Change, d, v *catalog.DeleteFile) {
			*d = *v
		},
		"add_deletes: file d is given twice":                               func(c *commit.Change, d, _ *catalog.DeleteFile) { c.AddDeletes = append(c.AddDeletes, *d) },
		"has equality deletes, which":                                      func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Kind = catalog.EqualityDeletes },
		"p has equality deletes, which":                                    func(_ *commit.Change, _, v *catalog.DeleteFile) { v.Columns = []catalog.Field{{}} },
		"delete file d has 0 rows":                                         func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Rows = 0 },
		"delete file d has 2 rows and 9 bytes, and data file b has 1 rows": func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Rows = 2 },
		"delete file d has 1 rows and 0 bytes":                             func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Bytes = 0 },
		"the deletion vector at byte 3 of p":                               func(_ *commit.Change, _, v *catalog.DeleteFile) { v.Offset = 3 },
		"the deletion vector at byte 4 of p has 0 bytes":                   func(_ *commit.Change, _, v *catalog.DeleteFile) { v.Length = 0 },
		"the deletion vector at byte 4 of p has 6 bytes":                   func(_ *commit.Change, _, v *catalog.DeleteFile) { v.Length = 6 },
		"delete file d is of another partition than data file b":           func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Spec = 1 },
		"delete file p is of another partition than data file c":           func(_ *commit.Change, _, v *catalog.DeleteFile) { v.Partition = []any{int64(1)} },
		"delete file d has sequence number 4, which is older":              func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Sequence = 4 },
		"delete file p has sequence number 9, which is older":              func(_ *commit.Change, _, v *catalog.DeleteFile) { v.Sequence = 9 },
		"delete file d has sequence number -1":                             func(_ *commit.Change, d, _ *catalog.DeleteFile) { d.Sequence = -1 },
	} {
		one := deletes()
		change(&one, &one.AddDeletes[0], &one.AddDeletes[1])
		err := one.Check(now)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), text)
		require.ErrorContains(t, err, text)
	}
	late := good()
	late.Token = commit.NewToken(now.Add(time.Hour), "a")
	require.NoError(t, late.Check(time.Time{}), "without a clock, every time is accepted")
}
