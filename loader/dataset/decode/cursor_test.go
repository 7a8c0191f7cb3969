package decode_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// firstText is the text of the first cursor of shards, as clients receive it.
var firstText = datasettest.Summed(`{"v":1,"plan":"5ffc2e23","algorithm":1,"dataset":"c8cb5c6c","filter":"a < 1 AND b > '&'",` +
	`"order":"shuffled","shuffle":"splits","seed":-9223372036854775808,"epoch":2,"lanes":4,` +
	`"pin":{"training":{"uuid":"9c12","snapshot":9007199254740993,"schema":1,"mapping":"0123456789abcdef"},` +
	`"staging":{"a":{"uuid":"1b4e","snapshot":7,"schema":2},"b":{"uuid":"77","snapshot":-1,"schema":0}}},` +
	`"shard":{"index":0,"of":2},"step":12,"rows":4096,` +
	`"at":[{"lane":0,"split":3,"row":1200},{"lane":2,"split":2,"row":9223372036854775807}]}`)

// edited replaces a part of a cursor's text and corrects the checksum.
func edited(t *testing.T, text, old, now string) string {
	t.Helper()
	require.Contains(t, text, old)
	return datasettest.Summed(strings.Replace(text, old, now, 1))
}

// spec: cursor-1, cursor-2
func TestCursorForm(t *testing.T) {
	t.Parallel()
	same(t, firstText, datasettest.Shards()[0].JSON())
	back, err := decode.Cursor([]byte(firstText))
	require.NoError(t, err)
	require.Equal(t, datasettest.Shards()[0], back)
	empty := dataset.Cursor{}.JSON()
	require.Contains(t, string(empty), `"staging":{}`)
	require.Contains(t, string(empty), `"at":[]`)

	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(firstText), &fields))
	require.Len(t, fields, 16)
	for name := range fields {
		without := map[string]json.RawMessage{}
		for other, value := range fields {
			if other != name {
				without[other] = value
			}
		}
		text, err := json.Marshal(without)
		require.NoError(t, err)
		_, err = decode.Cursor(text)
		require.ErrorContains(t, err, "read the cursor: "+name+": missing")
	}
}

// TestCursorOfASample checks the text of a cursor with a sample. Cursors of all rows must
// keep the text that they had before samples were added.
func TestCursorOfASample(t *testing.T) {
	t.Parallel()
	sampled := datasettest.Shards()[0]
	sampled.Sample = (&dataset.Sample{Rate: 0.25, Where: datasettest.Filter("label=0")}).Normal()
	text := edited(t, firstText, `"order":`, `"sample":{"rate":0.25,"where":"label = 0"},"order":`)
	same(t, text, sampled.JSON())
	back, err := decode.Cursor([]byte(text))
	require.NoError(t, err)
	require.Equal(t, sampled, back)
	_, err = decode.Cursor([]byte(strings.Replace(text, "label = 0", strings.Repeat("x", 8<<16), 1)))
	require.ErrorContains(t, err, "sample.where: the filter is longer than 65536 bytes")
}

// TestCursorOfWindows checks that cursors of plans with windows have the window in each
// position. Other cursors must keep the text that they had before windows were added.
//
// spec: cursor-23, order-27
func TestCursorOfWindows(t *testing.T) {
	t.Parallel()
	one := datasettest.Shards()[0]
	one.Shuffle, one.ShuffleWindow, one.ShuffleParts = dataset.ShuffleRequests, 131072, 8
	one.At[0].Window = 5
	text := edited(t, firstText, `"splits"`, `"requests","shuffle_window":131072,"shuffle_parts":8`)
	text = edited(t, edited(t, text, `"split":3,`, `"split":3,"window":5,`), `"split":2,`, `"split":2,"window":0,`)
	same(t, text, one.JSON())
	back, err := decode.Cursor([]byte(text))
	require.NoError(t, err)
	require.Equal(t, one, back)
	for wrong, want := range map[string]string{
		strings.Replace(text, `"window":0,`, "", 1):                    "at[1].window: missing",
		strings.Replace(text, `,"shuffle_window":131072`, "", 1):       "shuffle_window: a cursor has it if shuffle is requests or rows",
		strings.Replace(text, `,"shuffle_parts":8`, "", 1):             "shuffle_parts: a cursor has it if shuffle is requests or rows",
		strings.Replace(text, `"requests"`, `"splits"`, 1):             "shuffle_window: a cursor has it if shuffle is requests or rows",
		strings.Replace(text, `"shuffled"`, `"stored"`, 1):             "shuffle: a plan with order stored does not shuffle requests",
		strings.Replace(firstText, `"row":1`, `"window":1,"row":1`, 1): "at[0].window: this plan does not shuffle within windows",
	} {
		_, err := decode.Cursor([]byte(wrong))
		require.ErrorContains(t, err, want)
	}
	q, err := decode.Query([]byte(`{"dataset":"d","cursor":` + text + `}`))
	require.NoError(t, err)
	require.Equal(t, dataset.ShuffleRequests, q.Shuffle)
	require.Equal(t, int64(131072), q.ShuffleWindow)
	other := back
	other.ShuffleWindow = 9
	require.Equal(t, []string{"shuffle_window (131072, not 9)"}, dataset.Differences(back, other))
}

// TestUnevenCursor checks the text of a cursor with uneven lanes. Other cursors must keep
// the text that they had before uneven was added.
//
// spec: cursor-1
func TestUnevenCursor(t *testing.T) {
	t.Parallel()
	one := datasettest.Shards()[0]
	one.Uneven = true
	text := edited(t, firstText, `"rows":4096,`, `"rows":4096,"uneven":true,`)
	same(t, text, one.JSON())
	back, err := decode.Cursor([]byte(text))
	require.NoError(t, err)
	require.Equal(t, one, back)
	for _, wrong := range []string{"false", "1", `"true"`} {
		_, err = decode.Cursor([]byte(strings.Replace(text, `"uneven":true`, `"uneven":`+wrong, 1)))
		require.ErrorContains(t, err, "uneven: must be true, or left out")
	}
}

// TestCursorOfRequests checks that a cursor has requests instead of rows if lanes return
// equal requests, and that a query that resumes from it must set batch_requests.
//
// spec: cursor-24
func TestCursorOfRequests(t *testing.T) {
	t.Parallel()
	one := datasettest.Shards()[0]
	one.Requests = true
	text := edited(t, firstText, `"rows":4096,`, `"requests":4096,`)
	same(t, text, one.JSON())
	back, err := decode.Cursor([]byte(text))
	require.NoError(t, err)
	require.Equal(t, one, back)
	require.Equal(t, []string{"batches of (requests, not rows)"}, dataset.Differences(one, datasettest.Shards()[0]))
	for wrong, want := range map[string]string{
		strings.Replace(text, `"requests":`, `"rows":1,"requests":`, 1): "requests: a cursor has rows or requests, not both",
		strings.Replace(text, `"requests":4096,`, ``, 1):                "rows: missing",
		strings.Replace(text, `"requests":4096`, `"requests":-1`, 1):    "requests: must be at least 0, not -1",
	} {
		_, err := decode.Cursor([]byte(wrong))
		require.ErrorContains(t, err, want)
	}
	_, err = decode.Query([]byte(`{"dataset":"d","batch_rows":4,"cursor":` + text + `}`))
	require.ErrorContains(t, err, "batch_requests: missing: the cursor counts requests, not rows")
	_, err = decode.Query([]byte(`{"dataset":"d","batch_requests":4,"cursor":` + firstText + `}`))
	require.ErrorContains(t, err, "batch_requests: the cursor counts rows, not requests; use batch_rows")
	_, err = decode.Query([]byte(`{"dataset":"d","batch_requests":4,"cursor":` + text + `}`))
	require.NoError(t, err)
}

// TestCursorOfSince checks the text of a cursor with since. Other cursors must keep the
// text that they had before since was added. A query may repeat the cursor's value but
// not change it.
//
// spec: since-9
func TestCursorOfSince(t *testing.T) {
	t.Parallel()
	one := datasettest.Shards()[0]
	one.Since = 9007199254740993
	text := edited(t, firstText, `"order":`, `"since":9007199254740993,"order":`)
	same(t, text, one.JSON())
	back, err := decode.Cursor([]byte(text))
	require.NoError(t, err)
	require.Equal(t, one, back)
	_, err = decode.Cursor([]byte(strings.Replace(text, `993,"order"`, `993.5,"order"`, 1)))
	require.ErrorContains(t, err, "since: must be a whole number")

	q, err := decode.Query([]byte(`{"dataset":"d","cursor":` + text + `}`))
	require.NoError(t, err)
	require.Equal(t, int64(9007199254740993), q.Since)
	same(t, `{"dataset":"d","cursor":`+text+`}`, q.Canonical())
	again, err := decode.Query([]byte(`{"dataset":"d","since":9007199254740993,"cursor":` + text + `}`))
	require.NoError(t, err)
	require.Equal(t, q, again)
	for cursor, want := range map[string]string{
		text: "since: 7, but the cursor has 9007199254740993; leave since out", firstText: "since: 7, but the cursor has none; leave since out",
	} {
		_, err = decode.Query([]byte(`{"dataset":"d","since":7,"cursor":` + cursor + `}`))
		require.EqualError(t, err, "read the query: "+want)
	}
	_, err = decode.Query([]byte(`{"dataset":"d","since":0}`))
	require.EqualError(t, err, "read the query: since: must be at least 1, not 0")
}

// TestCursorsAreStoredInAnyForm checks that clients may parse and rewrite a cursor, which
// changes white space, the order of fields and escapes, but no values.
//
// spec: cursor-26
func TestCursorsAreStoredInAnyForm(t *testing.T) {
	t.Parallel()
	m := newMaker(t, 21)
	for range rounds / 4 {
		c := m.cursors()[0]
		same(t, datasettest.Summed(string(c.JSON())), c.JSON())
		tokens := json.NewDecoder(bytes.NewReader(c.JSON()))
		tokens.UseNumber() // keep all digits of numbers
		var fields map[string]any
		require.NoError(t, tokens.Decode(&fields))
		stored, err := json.MarshalIndent(fields, "", "\t")
		require.NoError(t, err)
		require.NotEqual(t, string(c.JSON()), string(stored))
		back, err := decode.Cursor(stored)
		require.NoError(t, err)
		require.Equal(t, c, back)
		same(t, string(c.JSON()), back.JSON())
	}
	one := datasettest.Shards()[0]
	one.Filter = datasettest.Filter("s = '\u2028 \u2029 \t é 漢 🙂 < > & \x7f'")
	require.Contains(t, string(one.JSON()), `"filter":"s = '\u2028 \u2029 \t é 漢 🙂 < > & `+"\x7f'\"")
	same(t, datasettest.Summed(string(one.JSON())), one.JSON())
}

// TestEditedCursors checks that a cursor is rejected if a value is changed, removed or
// added without correcting the checksum.
//
// spec: cursor-27
func TestEditedCursors(t *testing.T) {
	t.Parallel()
	const damaged = "sum: the cursor was edited or damaged: its checksum does not match the other fields; resume with the cursor exactly as it was received, or start without it"
	full := datasettest.Cursor(t)
	text := string(full.JSON())
	_, err := decode.Cursor([]byte(text))
	require.NoError(t, err)
	number, word := regexp.MustCompile(`:-?\d+|[\[,]\d+`), regexp.MustCompile(`:"[^"]+`)
	changed, unseen := 0, 0
	for _, values := range []*regexp.Regexp{number, word} {
		for _, at := range values.FindAllStringIndex(text, -1) {
			other := text[:at[1]] + "1" + text[at[1]:]
			_, err := decode.Cursor([]byte(other))
			require.Equal(t, fault.Invalid, fault.KindOf(err), other)
			changed++
			if err.Error() != "read the cursor: "+damaged {
				unseen++ // another check fails first
			}
		}
	}
	require.Greater(t, changed, 40)
	require.Less(t, unseen, changed/2)
	for old, now := range map[string]string{
		`"algorithm":1`: `"algorithm":99`, `"dataset":"c8`: `"dataset":"d8`, `a < 1`: `a < 2`, `"step":12`: `"step":13`,
		`"rows":4096`: `"rows":4095`, `"seed":-9`: `"seed":-8`, `"plan":"5`: `"plan":"6`, `"snapshot":7`: `"snapshot":8`,
		`"row":1200`: `"row":1201`, `"epoch":2`: `"epoch":3`, `"sum":"`: `"sum":"0`,
		`"rows":4096,`: `"rows":4096,"uneven":true,`, `"filter":`: `"since":3,"filter":`, `],"sum"`: `],"counted":{"rows":4,"shortest":1,"longest":1,"lanes":[1,1]},"sum"`,
	} {
		require.Contains(t, firstText, old)
		text := strings.Replace(firstText, old, now, 1)
		_, err := decode.Cursor([]byte(text))
		require.EqualError(t, err, "read the cursor: "+damaged, now)
		_, err = decode.Query([]byte(`{"dataset":"d","cursor":[` + text + `]}`))
		require.EqualError(t, err, "read the query: cursor[0]."+damaged, now)
	}
	_, err = decode.Cursor([]byte(firstText[:strings.Index(firstText, `,"sum"`)] + "}"))
	require.EqualError(t, err, "read the cursor: sum: missing: the cursor was edited, or written by a version without checksums; "+
		"resume with the cursor exactly as it was received, or start without it")
	_, err = decode.Cursor([]byte(strings.Replace(firstText, `"sum":"`, `"sum":7,"x":"`, 1)))
	require.ErrorContains(t, err, "sum: must be text")
}

// spec: cursor-4, cursor-5
func TestFaultsOfCursors(t *testing.T) {
	t.Parallel()
	for change, want := range map[[2]string]string{
		{`"v":1`, `"v":2`}:                                                 "v: a cursor of version 2 is not supported by this version, which reads version 1",
		{`"v":1`, `"v":1.0`}:                                               "v: must be a whole number",
		{`"v":1`, `"v":1,"stpe":1`}:                                        `stpe: unknown field (did you mean "step"?)`,
		{`"v":1`, `"v":1,"v":1`}:                                           "v: the field is repeated",
		{`"of":2`, `"of":3`}:                                               "shard.of: 3 shards do not divide 4 lanes",
		{`"index":0`, `"index":2`}:                                         "shard.index: shard 2 is out of range for 2 shards",
		{`"index":0`, `"index":1`}:                                         "at[0].lane: must be lane 1 of shard 1 of 2, not 0; at[1].lane: must be lane 3 of shard 1 of 2, not 2",
		{`{"lane":0,"split":3,"row":1200},`, ``}:                           "at: shard 0 of 2 reads 2 of 4 lanes, but the cursor has 1",
		{`"lane":2`, `"lane":0`}:                                           "at[1].lane: must be lane 2 of shard 0 of 2, not 0",
		{`"row":1200`, `"row":-1`}:                                         "at[0].row: must be at least 0, not -1",
		{`"row":1200`, `"row":1e3`}:                                        "at[0].row: must be a whole number",
		{`"row":9223372036854775807`, `"row":9223372036854775808`}:         "at[1].row: 9223372036854775808 does not fit in a 64-bit integer",
		{`"lanes":4`, `"lanes":4097`}:                                      "lanes: must be at most 4096",
		{`"5ffc2e23"`, `"` + strings.Repeat("x", 129) + `"`}:               "plan: has 129 bytes, the limit is 128",
		{`"a < 1 AND b > '&'"`, `"` + strings.Repeat("x", 64<<10+1) + `"`}: "filter: the filter is longer than 65536 bytes",
		{`"order":"shuffled"`, `"order":"sorted"`}:                         `order: unknown value "sorted"; known: stored, shuffled (did you mean "stored"?)`,
		{`"staging":{`, `"staging":[],"x":{`}:                              "pin.staging: must be an object that maps the names of at most 64 tables",
		{`"staging":{"a"`, `"staging":{""`}:                                `pin.staging[""]: a staging table's name has 1 to 1024 bytes`,
		{`"rows":4096`, `"rows":null`}:                                     "rows: missing",
		{`"of":2`, `"of":null`}:                                            "shard.of: missing",
		{`"index":0`, `"index":null`}:                                      "shard.index: missing",
	} {
		text := strings.Replace(firstText, change[0], change[1], 1)
		require.NotEqual(t, firstText, text)
		_, err := decode.Cursor([]byte(text))
		require.Equal(t, fault.Invalid, fault.KindOf(err), want)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "sum: ", "the checksum, which fits no more, hides nothing")
		_, err = decode.Query([]byte(`{"dataset":"d","cursor":[` + text + `]}`))
		require.ErrorContains(t, err, "cursor[0].", want)
	}
}

// spec: cursor-13, cursor-18
func TestPinAndLanesComeFromTheCursor(t *testing.T) {
	t.Parallel()
	q, err := decode.Query([]byte(`{"dataset":"d","cursor":` + firstText + `,"shard":{"of":2,"index":0}}`))
	require.NoError(t, err)
	require.Equal(t, 4, q.Lanes)
	require.Equal(t, datasettest.Shards()[0].Pin, q.Pin)
	require.Equal(t, dataset.Cursors{datasettest.Shards()[0]}, q.Cursor)
	short, err := decode.Query([]byte(`{"dataset":"d","cursor":` + firstText + `}`))
	require.NoError(t, err)
	require.Equal(t, q, short, "and so does the shard of a single cursor")
	same(t, `{"dataset":"d","cursor":`+firstText+`}`, q.Canonical())
	all, err := decode.Query([]byte(`{"dataset":"d","cursor":` + firstText + `,"shard":{}}`))
	require.NoError(t, err)
	require.Equal(t, dataset.Shard{Index: dataset.AllShards, Of: 1}, all.Shard)
	same(t, `{"dataset":"d","shard":{"of":1},"cursor":`+firstText+`}`, all.Canonical())
	several, err := decode.Query([]byte(`{"dataset":"d","cursor":[` + firstText + `,` + string(datasettest.Shards()[1].JSON()) + `]}`))
	require.NoError(t, err)
	require.Equal(t, dataset.Shard{Index: dataset.AllShards, Of: 1}, several.Shard)
	_, err = decode.Query([]byte(`{"dataset":"d","cursor":{"v":1}}`))
	require.ErrorContains(t, err, "cursor.shard: missing")
	pin, err := json.Marshal(q.Pin)
	require.NoError(t, err)

	agreeing, err := decode.Query([]byte(`{"dataset":"d","cursor":[` + firstText + `],"shard":{"of":2,"index":0},"lanes":4,"snapshots":` + string(pin) + `}`))
	require.NoError(t, err)
	require.Equal(t, q, agreeing)

	other := strings.Replace(string(pin), `"snapshot":7`, `"snapshot":8`, 1)
	_, err = decode.Query([]byte(`{"dataset":"d","cursor":` + firstText + `,"lanes":8,"snapshots":` + other + `}`))
	require.EqualError(t, err, "read the query: lanes: 8, but the cursor has 4; leave lanes out; "+
		"snapshots: the cursor was made at other snapshots: pin.staging.a snapshot (8, not 7); leave snapshots out")
	_, err = decode.Query([]byte(`{"dataset":"d","cursor":` + firstText + `,"shard":{"of":3}}`))
	require.ErrorContains(t, err, "shard.of: 3 shards do not divide 4 lanes; the cursor sets the lanes: resume with a number of shards that divides them")
}

// TestThePlanComesFromTheCursor checks that a query need not repeat fields of the plan,
// and that fields it does repeat must agree with the cursor, even zeros and defaults.
//
// spec: cursor-13
func TestThePlanComesFromTheCursor(t *testing.T) {
	t.Parallel()
	one := datasettest.Shards()[0]
	one.Sample, one.Since = (&dataset.Sample{Rate: 0.25, Where: datasettest.Filter("label=0")}).Normal(), 7
	one.Filter = datasettest.Filter("a < 1")
	text := string(one.JSON())
	with := func(cursor, fields string) string { return `{"dataset":"d",` + fields + `"cursor":` + cursor + `}` }
	q, err := decode.Query([]byte(with(text, "")))
	require.NoError(t, err)
	require.Equal(t, "a < 1", q.Filter.String())
	require.Equal(t, one.Sample, q.Sample)
	require.Equal(t, dataset.Shuffled, q.Order)
	require.Equal(t, dataset.ShuffleSplits, q.Shuffle)
	require.Equal(t, int64(-9223372036854775808), q.Seed)
	require.Equal(t, int64(2), q.Epoch)
	same(t, with(text, ""), q.Canonical())
	require.Equal(t, q, dataset.Query{Rows: dataset.Rows{Dataset: "d"}, Reading: dataset.Reading{Cursor: dataset.Cursors{one}}}.Defaults(), "in Go as in JSON")

	again, err := decode.Query([]byte(with(text, `"sample":{"rate":0.25,"where":"label = 0"},"order":"shuffled","shuffle":"splits",`+
		`"seed":-9223372036854775808,"epoch":2,"lanes":4,"filter":"a < 1","since":7,`)))
	require.NoError(t, err)
	require.Equal(t, q, again)
	same(t, with(text, ""), again.Canonical())
	written, err := decode.Query([]byte(with(text, `"filter":"a<1","sample":{"rate":0.25,"where":"label=0"},`)))
	require.NoError(t, err, "the same in other words")
	same(t, `{"dataset":"d","filter":"a<1","sample":{"rate":0.25,"where":"label=0"},"cursor":`+text+`}`, written.Canonical())

	plain := one
	plain.Filter, plain.Sample, plain.Order, plain.Seed, plain.Epoch, plain.Since = dataset.Filter{}, nil, dataset.Stored, 0, 0, 0
	for fields, want := range map[string]string{
		`"seed":0,`:                    "seed: 0, but the cursor has -9223372036854775808; leave seed out",
		`"epoch":0,`:                   "epoch: 0, but the cursor has 2; leave epoch out",
		`"order":"stored",`:            "order: stored, but the cursor has shuffled; leave order out",
		`"filter":"",`:                 "filter: none, but the cursor has a < 1; leave filter out",
		`"sample":{"rate":0.5},`:       `sample: {"rate":0.5}, but the cursor has {"rate":0.25,"where":"label = 0"}; leave sample out`,
		`"lanes":8,"seed":1,`:          "seed: 1, but the cursor has -9223372036854775808; leave seed out; lanes: 8, but the cursor has 4; leave lanes out",
		`"since":8,"epoch":null,`:      "since: 8, but the cursor has 7; leave since out",
		`"shard":{"of":2},"seed":"0",`: "seed: must be a whole number, not text; write it without quotes",
	} {
		_, err := decode.Query([]byte(with(text, fields)))
		require.EqualError(t, err, "read the query: "+want)
	}
	for fields, want := range map[string]string{
		`"seed":7,`:              "seed: 7, but the cursor has 0; leave seed out",
		`"order":"shuffled",`:    "order: shuffled, but the cursor has stored; leave order out",
		`"sample":{"rate":0.5},`: `sample: {"rate":0.5}, but the cursor has none; leave sample out`,
	} {
		_, err := decode.Query([]byte(with(string(plain.JSON()), fields)))
		require.EqualError(t, err, "read the query: "+want)
	}
	windows := one
	windows.Shuffle, windows.ShuffleWindow, windows.ShuffleParts = dataset.ShuffleRequests, 131072, 8
	shuffled, err := decode.Query([]byte(with(string(windows.JSON()), "")))
	require.NoError(t, err)
	require.Equal(t, int64(131072), shuffled.ShuffleWindow)
	same(t, with(string(windows.JSON()), ""), shuffled.Canonical())
	for fields, want := range map[string]string{
		`"shuffle":"rows",`:   "shuffle: rows, but the cursor has requests; leave shuffle out",
		`"shuffle_parts":7,`:  "shuffle_parts: 7, but the cursor has 8; leave shuffle_parts out",
		`"shuffle_window":7,`: "shuffle_window: 7, but the cursor has 131072; leave shuffle_window out",
		`"order":"stored",`:   "order: stored, but the cursor has shuffled; leave order out",
		`"shuffle":"splits",`: "shuffle: splits, but the cursor has requests; leave shuffle out",
	} {
		_, err := decode.Query([]byte(with(string(windows.JSON()), fields)))
		require.EqualError(t, err, "read the query: "+want)
	}
	for change, want := range map[[2]string]string{
		{`"a < 1"`, `"a <"`}: "cursor.filter: at position 4: the filter ends too early",
		{`{"rate`, `{"rat`}:  "cursor.sample.rat: unknown field",
	} {
		_, err := decode.Query([]byte(with(strings.Replace(text, change[0], change[1], 1), "")))
		require.ErrorContains(t, err, want)
	}
}

// spec: cursor-19
func TestNoCursorIsNotTheStart(t *testing.T) {
	t.Parallel()
	_, err := decode.Query([]byte(`{"dataset":"d","cursor":[]}`))
	require.ErrorContains(t, err, "cursor: the list is empty; leave the field out to read from the start")
	_, err = decode.Cursors([]byte(`[]`))
	require.ErrorContains(t, err, "the list is empty")
	_, err = dataset.Cursors{}.Merge()
	require.ErrorContains(t, err, "there is no cursor")
	both, err := decode.Cursors([]byte("[" + firstText + "," + string(datasettest.Shards()[1].JSON()) + "]"))
	require.NoError(t, err)
	require.Equal(t, datasettest.Shards(), both)
}

// TestCursorsWithInconsistentCountsAreRejected checks that cursors with inconsistent counts are
// rejected.
//
// spec: step-10
func TestCursorsWithInconsistentCountsAreRejected(t *testing.T) {
	t.Parallel()
	form := `{"v":1,"plan":"p","algorithm":2,"dataset":"d","filter":"","order":"stored","shuffle":"splits","seed":0,"epoch":0,"lanes":2,` +
		`"pin":{"training":{"uuid":"u","snapshot":1,"schema":0},"staging":{}},"shard":{"index":0,"of":1},"step":0,"rows":0,` +
		`"at":[{"lane":0,"split":0,"row":0},{"lane":1,"split":0,"row":0}],"counted":`
	for text, problem := range map[string]string{
		`{"rows":3,"shortest":1,"longest":2,"lanes":[1,2]}`:                   "",
		`{"rows":4,"shortest":1,"longest":2,"lanes":[1,2]}`:                   "counted: 2 lanes of 1 to 2 rows, 4 in total, are impossible",
		`{"rows":3,"shortest":1,"longest":2,"lanes":[3]}`:                     "counted: shard 0 of 1 reads 2 lanes, but counts are given for 1",
		`{"rows":3,"shortest":1,"longest":2}`:                                 "counted.lanes: missing",
		`{"rows":3,"shortest":-1,"longest":2,"lanes":[1,2]}`:                  "counted.shortest: must be at least 0",
		`{"rows":3,"shortest":1,"longest":1125899906842625,"lanes":[1,2]}`:    "counted.longest: must be at most",
		`{"rows":3,"shortest":1,"longest":2,"lanes":[1,2],"lane":1}`:          `counted.lane: unknown field`,
		`{"rows":9223372036854775808,"shortest":1,"longest":2,"lanes":[1,2]}`: "counted.rows",
		`{"rows":9223372036854775807,"shortest":1,"longest":2,"lanes":[1,2]}`: "are impossible",
	} {
		_, err := decode.Cursor([]byte(datasettest.Summed(form + text + "}")))
		if problem == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, problem, text)
	}
}

// TestPinsBesideACursorRoundTrip checks that a query's text keeps the pins of tables that
// its cursor does not have.
//
// spec: cursor-28
func TestPinsBesideACursorRoundTrip(t *testing.T) {
	t.Parallel()
	q := dataset.Query{
		Rows: dataset.Rows{Dataset: "d", Pin: dataset.Pin{Staging: map[string]dataset.TablePin{
			"added": {UUID: "ad", Snapshot: 3, Schema: 1},
		}}},
		Reading: dataset.Reading{Cursor: dataset.Cursors{datasettest.Shards()[0]}},
	}
	again, err := decode.Query(q.Canonical())
	require.NoError(t, err)
	require.Equal(t, q.Defaults().Pin, again.Pin)
}

// No stream returns so many rows, or steps, that counting on from them overflows.
//
// spec: cursor-25
func TestCursorsAfterTooManyRows(t *testing.T) {
	t.Parallel()
	const most = 1 << 50
	for field, change := range map[string]func(c *dataset.Cursor, n int64){
		"rows":     func(c *dataset.Cursor, n int64) { c.Given = n },
		"requests": func(c *dataset.Cursor, n int64) { c.Given, c.Requests = n, true },
		"step":     func(c *dataset.Cursor, n int64) { c.Step = n },
	} {
		c := datasettest.Shards()[0]
		change(&c, most)
		_, err := decode.Cursor(c.JSON())
		require.NoError(t, err)
		change(&c, most+1)
		_, err = decode.Cursor(c.JSON())
		require.ErrorContains(t, err, field+": must be at most 1125899906842624")
	}
}
