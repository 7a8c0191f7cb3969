package commit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
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
	got, err := commit.TokenTime(token)
	require.NoError(t, err)
	require.True(t, got.Equal(when))
	one, other := commit.NewToken(when, ""), commit.NewToken(when, "")
	require.NotEqual(t, one, other)
	_, err = commit.TokenTime(commit.NewToken(when, strings.Repeat("n", 128)))
	require.NoError(t, err)
	for _, text := range []string{
		"", "job-7", "20260301T123000.789Z", "20260301T123000.789Z-", "20260301T123000.789Z_job", "20261301T123000.789Z-job",
		"20260301T123000.789Z-a b", "20260301T123000.789Z-a/b", "20260301T123000Z-job", "20260301T123000.789Z-" + strings.Repeat("n", 129),
	} {
		_, err := commit.TokenTime(text)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), text)
		require.ErrorContains(t, err, "is not a token of a change; write the time when the change began")
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
		"is not a token":                           func(c *commit.Change) { c.Token = "x" },
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
	late := good()
	late.Token = commit.NewToken(now.Add(time.Hour), "a")
	require.NoError(t, late.Check(time.Time{}), "without a clock, every time is accepted")
}
