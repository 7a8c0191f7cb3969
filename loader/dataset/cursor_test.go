package dataset_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// TestPinsThatDisagree checks that only the fields that a pin sets are compared, if it
// omits tables, uuids or schemas.
func TestPinsThatDisagree(t *testing.T) {
	t.Parallel()
	whole := datasettest.Shards()[0].Pin
	for _, test := range []struct {
		given dataset.Pin
		want  []string
	}{
		{dataset.Pin{}, nil},
		{dataset.Pin{Training: dataset.TablePin{Snapshot: 9007199254740993}}, nil},
		{dataset.Pin{Training: dataset.TablePin{Snapshot: 5}}, []string{"pin.training snapshot (5, not 9007199254740993)"}},
		{
			dataset.Pin{Training: dataset.TablePin{Snapshot: 9007199254740993}, Staging: map[string]dataset.TablePin{"a": {Snapshot: 8}}},
			[]string{"pin.staging.a snapshot (8, not 7)"},
		},
		{dataset.Pin{Staging: map[string]dataset.TablePin{"z": {Snapshot: 8}}}, nil}, // the cursor's dataset has no entry z
	} {
		require.Equal(t, test.want == nil, test.given.Agrees(whole))
		require.Equal(t, test.want, dataset.PinDifferences(test.given, whole))
	}
}

// TestLongTextsThatDiffer checks that long texts are shortened to parts that differ.
func TestLongTextsThatDiffer(t *testing.T) {
	t.Parallel()
	a, b := datasettest.Shards()[0], datasettest.Shards()[0]
	for _, test := range []struct{ a, b, want string }{
		{strings.Repeat("x", 200) + "1", strings.Repeat("x", 200) + "2", "dataset (…" + strings.Repeat("x", 20) + "1, not …" + strings.Repeat("x", 20) + "2)"},
		{strings.Repeat("x", 200), strings.Repeat("x", 201), "dataset (…" + strings.Repeat("x", 20) + ", not …" + strings.Repeat("x", 21) + ")"},
		{strings.Repeat("é", 100) + "è", strings.Repeat("é", 101), "dataset (…" + strings.Repeat("é", 10) + "è, not …" + strings.Repeat("é", 11) + ")"},
		{"1" + strings.Repeat("x", 100), "2", "dataset (1" + strings.Repeat("x", 79) + "…, not 2)"},
	} {
		a.Dataset, b.Dataset = test.a, test.b
		require.Equal(t, []string{test.want}, dataset.Differences(a, b))
	}
}

// spec: cursor-20, cursor-21
func TestDifferences(t *testing.T) {
	t.Parallel()
	a := datasettest.Shards()[0]
	require.Empty(t, dataset.Differences(a, datasettest.Shards()[1]), "shards of one plan")
	moved := a
	moved.Step, moved.Given, moved.At = 0, 0, nil
	require.Empty(t, dataset.Differences(a, moved))

	b := a
	b.Algorithm, b.Dataset, b.Filter, b.Order, b.Shuffle = 2, "other", dataset.Filter{}, dataset.Stored, "rows"
	b.Seed, b.Epoch, b.Lanes, b.Sample, b.Since = 3, 4, 5, &dataset.Sample{Rate: 0.5}, 8
	b.Pin = dataset.Pin{
		Training: dataset.TablePin{UUID: "9c12", Snapshot: 5, Schema: 3},
		Staging: map[string]dataset.TablePin{
			"a": {UUID: "other", Snapshot: 5, Schema: 6}, "c": {UUID: "new"},
		},
	}
	require.Equal(t, []string{
		"algorithm (1, not 2)", "dataset (c8cb5c6c, not other)", "filter (a < 1 AND b > '&', not none)",
		`sample (none, not {"rate":0.5})`, "since (none, not 8)",
		"order (shuffled, not stored)", "shuffle (splits, not rows)", "seed (-9223372036854775808, not 3)",
		"epoch (2, not 4)", "lanes (4, not 5)",
		"pin.training snapshot (9007199254740993, not 5)", "pin.training schema (1, not 3)",
		"pin.training mapping (0123456789abcdef, not none)",
		"pin.staging.a table (1b4e, not other)", "pin.staging.b (77, not none)", "pin.staging.c (none, not new)",
	}, dataset.Differences(a, b))
	b = a
	b.Pin = dataset.Pin{Training: a.Pin.Training, Staging: map[string]dataset.TablePin{"a": a.Pin.Staging["a"], "b": {UUID: "77", Snapshot: 1}}}
	require.Equal(t, []string{"pin.staging.b snapshot (none, not 1)"}, dataset.Differences(a, b))
	require.Len(t, dataset.Differences(dataset.Cursor{}, dataset.Cursor{Rows: dataset.Rows{Dataset: strings.Repeat("x", 1000)}})[0], len("dataset (none, not )")+80+len("…"))
}

// spec: cursor-16
func TestMerge(t *testing.T) {
	t.Parallel()
	both := datasettest.Shards()
	both[1].Given = 7
	got, err := dataset.Cursors{both[1], both[0]}.Merge()
	require.NoError(t, err)
	require.Equal(t, dataset.Merged{
		Lanes: 4, Given: []int64{7, 4096},
		At: []dataset.Position{both[0].At[0], both[1].At[0], both[0].At[1], both[1].At[1]},
	}, got)
	got, err = dataset.Cursors{both[1]}.Merge()
	require.NoError(t, err, "one cursor need only have its shard's lanes")
	require.Equal(t, both[1].At, got.At)

	foreign, renamed, outside, short := datasettest.Shards()[1], datasettest.Shards()[1], datasettest.Shards()[1], datasettest.Shards()[1]
	foreign.Seed = 1
	renamed.Plan = "x"
	outside.At = []dataset.Position{{Lane: 4}}
	short.At = short.At[:1]
	for want, bad := range map[string]dataset.Cursors{
		"cursor[1]: it belongs to a different plan than cursor[0]; what differs: seed (1, not -9223372036854775808); give only cursors of one run": {both[0], foreign},
		"cursor[1]: it belongs to a different plan than cursor[0]; what differs: plan (x, not 5ffc2e23)":                                           {both[0], renamed},
		"cursor[1]: lane 0 is already in cursor[0]; give one cursor of each shard, all saved after the same step":                                  {both[0], both[0]},
		"cursor[1]: lane 4 is outside of the 4 lanes":                                                                                              {both[0], outside},
		"cursor: no cursor has lanes 3 of 4; give the cursors of all shards of the run as a list":                                                  {both[0], short},
		"cursor: no cursor has lanes 3 of 4":                                                                                                       {short},
	} {
		got, err := bad.Merge()
		require.Equal(t, fault.Invalid, fault.KindOf(err), want)
		require.ErrorContains(t, err, want)
		require.Empty(t, got)
	}
	_, err = dataset.Cursors{both[0], foreign}.Merge()
	require.Equal(t, []string{"seed (1, not -9223372036854775808)"}, fault.As(err).Differs)
}

// TestCursorsShareTheTextOfTheirPlan writes cursors of a stream with one text of their plan, also with a filter that has the
// name of the field.
func TestCursorsShareTheTextOfTheirPlan(t *testing.T) {
	t.Parallel()
	c := dataset.Cursor{Version: dataset.CursorVersion, Rows: dataset.Rows{
		Filter: datasettest.Filter(`a = '"pin":0,' OR b = 'pin\":0'`),
		Pin: dataset.Pin{
			Training: dataset.TablePin{UUID: "u", Snapshot: 3, Mapping: `"pin":0`},
			Staging:  map[string]dataset.TablePin{`"pin":0,`: {UUID: "v", Snapshot: 4}, "<b>": {UUID: "w", Snapshot: 5}},
		},
	}}
	var plan dataset.PlanText
	for step := range int64(3) {
		c.Step = step
		require.Equal(t, string(c.JSON()), string(c.Text(&plan)))
		require.True(t, json.Valid(c.JSON()))
		require.Contains(t, string(c.JSON()), `"sum":"`+c.Checksum()+`"`)
	}
}
