package flight

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// forgedCursors returns the number of cursors that the test forges for each client.
func forgedCursors() int {
	if os.Getenv("PENSTOCK_LONG") == "1" {
		return 10_000
	}
	return 300
}

// maxForged is the most bytes of forged cursors: more than a query may have, and less than a request.
const maxForged = 3 << 19

// written is a field of a cursor, as the text has it.
type written struct{ name, text string }

// forged is a cursor whose fields can be changed.
type forged []written

// forge returns the fields of a cursor, without its checksum.
func forge(t testing.TB, cursor []byte) forged {
	t.Helper()
	var out forged
	d := json.NewDecoder(bytes.NewReader(cursor))
	d.UseNumber()
	_, err := d.Token()
	require.NoError(t, err)
	for d.More() {
		name, err := d.Token()
		require.NoError(t, err)
		var value json.RawMessage
		require.NoError(t, d.Decode(&value))
		if name != "sum" {
			out = append(out, written{name.(string), string(value)})
		}
	}
	return out
}

// text returns the cursor with the checksum of its fields.
func (f forged) text() string {
	var fields []string
	for _, one := range f {
		fields = append(fields, fmt.Sprintf("%q:%s", one.name, one.text))
	}
	return datasettest.Summed("{" + strings.Join(fields, ",") + "}")
}

// with returns the cursor with another text of a field. A field that it lacks is added after another one.
func (f forged) with(name, text, after string) forged {
	out := slices.Clone(f)
	for i := range out {
		if out[i].name == name {
			out[i].text = text
			return out
		}
	}
	at := slices.IndexFunc(out, func(w written) bool { return w.name == after })
	return slices.Insert(out, at+1, written{name, text})
}

// without returns the cursor without a field.
func (f forged) without(name string) forged {
	return slices.DeleteFunc(slices.Clone(f), func(w written) bool { return w.name == name })
}

// of returns the text of a field; "" if there is none.
func (f forged) of(name string) string {
	for _, one := range f {
		if one.name == name {
			return one.text
		}
	}
	return ""
}

// place is a position of a cursor, in the order of its lane.
type place struct{ Lane, Split, Window, Row int64 }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.Split, o.Split), cmp.Compare(p.Window, o.Window), cmp.Compare(p.Row, o.Row))
}

func (p place) text(windows bool) string {
	if windows {
		return fmt.Sprintf(`{"lane":%d,"split":%d,"window":%d,"row":%d}`, p.Lane, p.Split, p.Window, p.Row)
	}
	return fmt.Sprintf(`{"lane":%d,"split":%d,"row":%d}`, p.Lane, p.Split, p.Row)
}

// placesOf returns the positions of a cursor, or nil if it has none that can be read.
func placesOf(cursor string) []place {
	var c struct{ At []place }
	if json.Unmarshal([]byte(cursor), &c) != nil {
		return nil
	}
	return c.At
}

// laneRows are the rows of a lane, with their positions.
type laneRows struct {
	rows []string
	at   []place
}

// add adds the next row, given the positions before and after it. The position after the last row of a split may be in another split,
// and that before a row is in the row's own split.
func (l *laneRows) add(row string, before, after place) {
	if after.Row > 0 {
		before = after
		before.Row--
	}
	l.rows, l.at = append(l.rows, row), append(l.at, before)
}

// from returns the rows from a position on. It reports whether the position exists.
func (l *laneRows) from(at place) (rest []string, exists bool) {
	rows := int64(0) // of the split, or of the window
	for i, p := range l.at {
		if p.Split == at.Split && p.Window == at.Window {
			rows++
		}
		if p.compare(at) >= 0 {
			rest = append(rest, l.rows[i])
		}
	}
	return rest, at.Row <= rows
}

// origin is a query of a client, with what it reads.
type origin struct {
	query   string // without its closing brace
	lanes   []laneRows
	cursors []string // of streams of all lanes, and of one shard
	windows bool
}

// forger forges cursors.
type forger struct {
	*rand.Rand
	t       testing.TB
	foreign []string // pins of tables, also of those that a client may not read
}

// number returns a number that is likely to be wrong. None is the greatest number of rows of a cursor, after which no cursor follows.
func (f *forger) number() string {
	return pickOne(f.Rand, "0", "1", "2", "3", "7", "299", "300", "4095", "4096", "65536", "2147483647", "2147483648", "1099511627776", "1125899906842625",
		"9223372036854775806", "9223372036854775807", "9223372036854775808", "-1", "-9223372036854775808", "1.5", "1e3", `"1"`, "null", "[]")
}

func pickOne[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// position changes a position of a cursor.
func (f *forger) position(of forged, windows bool) forged {
	at := placesOf(of.text())
	if len(at) == 0 {
		return of
	}
	i := f.IntN(len(at))
	near := func(n int64) int64 {
		return pickOne(f.Rand, n+1, max(0, n-1), 0, n+int64(f.IntN(40)), int64(f.IntN(4)), 1<<40, 1<<31-1, 1<<63-1)
	}
	switch f.IntN(4) {
	case 0:
		at[i].Split = near(at[i].Split)
	case 1:
		at[i].Row = near(at[i].Row)
	case 2:
		at[i].Window = near(at[i].Window)
		windows = windows || f.IntN(2) == 0
	default:
		at[i].Lane = near(at[i].Lane)
	}
	var texts []string
	for _, p := range at {
		texts = append(texts, p.text(windows))
	}
	return of.with("at", "["+strings.Join(texts, ",")+"]", "")
}

// list changes the list of positions as a whole.
func (f *forger) list(of forged) forged {
	at := of.of("at")
	if at == "" {
		return of
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(at, "["), "]")
	return of.with("at", pickOne(f.Rand, "[]", at[:len(at)-1]+","+inner+"]", "["+at+"]", strings.Repeat("[", 40)+strings.Repeat("]", 40),
		strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000), "["+strings.Repeat(inner+",", 4096)+inner+"]", "["+strings.Repeat(`{"lane":0,"split":0,"row":0},`, 9000)+`{}]`), "")
}

// pin changes the pin of a table.
func (f *forger) pin(of forged) forged {
	var pin struct {
		Training json.RawMessage            `json:"training"`
		Staging  map[string]json.RawMessage `json:"staging"`
	}
	if json.Unmarshal([]byte(of.of("pin")), &pin) != nil {
		return of
	}
	other := func() json.RawMessage { return json.RawMessage(pickOne(f.Rand, f.foreign...)) }
	switch f.IntN(5) {
	case 0:
		pin.Training = other()
	case 1:
		pin.Staging["profiles"] = other()
	case 2:
		pin.Staging["another"] = other()
	case 3:
		pin.Staging = map[string]json.RawMessage{}
	default:
		var one map[string]json.RawMessage
		if json.Unmarshal(pin.Training, &one) != nil {
			return of
		}
		one[pickOne(f.Rand, "snapshot", "schema")] = json.RawMessage(f.number())
		pin.Training = fmt.Appendf(nil, `{"uuid":%s,"snapshot":%s,"schema":%s}`, one["uuid"], one["snapshot"], one["schema"])
	}
	text, err := json.Marshal(pin)
	require.NoError(f.t, err)
	return of.with("pin", string(text), "")
}

// change changes a field of a cursor.
func (f *forger) change(of forged, windows bool) forged {
	switch f.IntN(14) {
	case 0, 1, 2, 3:
		return f.position(of, windows)
	case 4:
		return f.list(of)
	case 5:
		return f.pin(of)
	case 6:
		return of.with(pickOne(f.Rand, "step", "rows", "lanes", "algorithm", "seed", "epoch", "v", "since", "requests", "shuffle_window", "shuffle_parts"), f.number(), "shuffle")
	case 7:
		return of.with("shard", fmt.Sprintf(`{"index":%s,"of":%s}`, f.number(), f.number()), "")
	case 8:
		return of.with("uneven", pickOne(f.Rand, "true", "true", "true", "false", "1"), "rows")
	case 9:
		return of.with("counted", fmt.Sprintf(`{"rows":%s,"shortest":%s,"longest":%s,"lanes":[%s]}`, f.number(), f.number(), f.number(), f.number()), "at")
	case 10:
		return of.with("filter", fmt.Sprintf("%q", pickOne(f.Rand, "", "email = 'e1'", "note = 'n'", "country = 'US'", "item = 3", "1 = 1", "nothing = 1", strings.Repeat("(", 300), "item IN (1"+strings.Repeat(", 1", 9000)+")")), "")
	case 11:
		return of.with("sample", pickOne(f.Rand, `{"rate":0.5}`, `{"hash":[0,0.5]}`, `{"by":"email","rate":0.5}`, `{"rate":1e400}`, `{"where":"email = 'e1'","rate":0.1}`, "{}"), "filter")
	case 12:
		return of.with(pickOne(f.Rand, "order", "shuffle", "plan", "dataset"), fmt.Sprintf("%q", pickOne(f.Rand, "stored", "shuffled", "requests", "rows", "splits", "", "0", strings.Repeat("a", 200))), "")
	default:
		return of.without(pickOne(f.Rand, "rows", "step", "at", "pin", "filter", "shard", "lanes", "uneven", "counted", "plan", "shuffle_window"))
	}
}

// cursor returns the cursor field of a query: forged from the cursors of one origin.
func (f *forger) cursor(of origin) string {
	one := func() string {
		c := forge(f.t, []byte(pickOne(f.Rand, of.cursors...)))
		for range f.IntN(3) {
			c = f.change(c, of.windows)
		}
		return c.text()
	}
	switch f.IntN(16) {
	case 0, 1:
		return "[" + one() + "," + one() + "]"
	case 2:
		c := one()
		return "[" + strings.Repeat(c+",", f.IntN(min(200, 1+maxForged/len(c)))) + c + "]"
	default:
		return one()
	}
}

// expected returns the rows that a query with cursors returns if it is accepted, by the positions in the cursors. It reports whether
// all positions exist.
func (o origin) expected(cursor string) (rows []string, exist bool) {
	var all []json.RawMessage
	if json.Unmarshal([]byte(cursor), &all) != nil {
		all = []json.RawMessage{json.RawMessage(cursor)}
	}
	exist = true
	for _, c := range all {
		for _, at := range placesOf(string(c)) {
			rest, exists := o.lanes[at.Lane].from(at)
			rows, exist = append(rows, rest...), exist && exists
		}
	}
	return rows, exist
}

// originOf reads a query of a client: each lane alone and row by row, and all lanes together.
func originOf(ctx context.Context, t testing.TB, s *served, query string, lanes int) origin {
	t.Helper()
	out := origin{query: query}
	readOne := func(more string) got {
		answer, err := s.GetFlightInfo(ctx, flighttest.Command(fmt.Sprintf("%s, \"lanes\": %d%s}", query, lanes, more)))
		require.NoError(t, err)
		g, err := read(ctx, s.Client, answer.GetEndpoint()[0].GetTicket())
		require.NoError(t, err)
		return g
	}
	for lane := range lanes {
		g := readOne(fmt.Sprintf(`, "shard": {"index": %d, "of": %d}, "batch_rows": 1`, lane, lanes))
		var l laneRows
		before := place{Lane: int64(lane)}
		for i, row := range g.rows {
			at := placesOf(string(g.cursors[i]))
			require.Len(t, at, 1)
			l.add(fmt.Sprint(row), before, at[0])
			before = at[0]
			if i%29 == 0 {
				out.cursors = append(out.cursors, string(g.cursors[i]))
			}
		}
		out.lanes = append(out.lanes, l)
	}
	for _, cursor := range readOne(fmt.Sprintf(`, "batch_rows": %d`, 12*lanes)).cursors {
		out.cursors = append(out.cursors, string(cursor))
	}
	require.NotEmpty(t, out.cursors)
	out.windows = strings.Contains(out.cursors[0], `"window":`)
	return out
}

// A cursor is not signed: a client can write any. It is refused, or the stream has exactly the rows after its positions, of those
// that the client may read.
//
// spec: cursor-4, cursor-10, cursor-16, cursor-20, cursor-22, access-12, access-15
func TestForgedCursorsAreRefusedOrExact(t *testing.T) {
	t.Parallel()
	of := people{emails: true, foreign: true, filtered: true}
	s, w := of.server(t, Options{})
	f := &forger{Rand: rand.New(rand.NewPCG(14, 3)), t: t}
	for _, table := range w.tables {
		f.foreign = append(f.foreign, fmt.Sprintf(`{"uuid":%q,"snapshot":%d,"schema":%d}`, table.Pin.UUID, table.Pin.Snapshot, table.Pin.Schema),
			fmt.Sprintf(`{"uuid":%q,"snapshot":-1,"schema":0}`, table.Pin.UUID), fmt.Sprintf(`{"uuid":%q,"snapshot":1,"schema":7,"mapping":"names"}`, table.Pin.UUID))
	}
	for name, who := range map[string]context.Context{"alice": alice(t), "bob": bob(t)} {
		var origins []origin
		for i, query := range []string{
			`{"dataset": "people"`, `{"dataset": "people", "filter": "item > 40"`, `{"dataset": "people", "order": "shuffled", "shuffle": "splits", "seed": 5`,
			`{"dataset": "people", "order": "shuffled", "shuffle": "rows", "seed": 5, "shuffle_window": 16, "shuffle_parts": 2`,
			`{"dataset": "people", "order": "shuffled", "seed": 5, "shuffle_window": 16`, `{"dataset": "people", "sample": {"rate": 0.5}, "count": "exact"`,
		} {
			origins = append(origins, originOf(who, t, s, query, 1+i%3))
		}
		accepted := 0
		for n := range forgedCursors() {
			from := origins[f.IntN(len(origins))]
			cursor := f.cursor(from)
			for len(cursor) > maxForged {
				cursor = f.cursor(from)
			}
			query := fmt.Sprintf(`{"dataset": %q, "cursor": %s%s}`, pickOne(f.Rand, "people", "people", "people", "people", "people", "secret"), cursor,
				pickOne(f.Rand, "", "", `, "batch_rows": 12`, `, "limit": 9223372036854775807`, `, "count": "exact"`, `, "shard": {"of": 2}`, `, "endpoints": "splits"`))
			what := fmt.Sprintf("%s, cursor %d: %.3000s", name, n, query)
			rows, ok := s.readForged(who, t, query, what)
			if !ok {
				continue
			}
			accepted++
			want, exist := from.expected(cursor)
			require.True(t, exist, what)
			slices.Sort(rows)
			slices.Sort(want)
			require.Equal(t, want, rows, what)
		}
		require.Greater(t, accepted, forgedCursors()/20, "few forged cursors are accepted: the test finds little")
	}
	require.Eventually(t, func() bool { return s.server.Streams() == 0 }, time.Minute, time.Millisecond)
}

// readForged reads the rows of a query with a forged cursor. It returns false if the query is refused. The last cursor of a stream
// that is accepted can be resumed.
func (s *served) readForged(ctx context.Context, t testing.TB, query, what string) (rows []string, ok bool) {
	t.Helper()
	refused := func(err error, trailer metadata.MD) {
		code, detail := flighttest.FailureOf(t, err, trailer)
		require.Contains(t, []codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.PermissionDenied}, code, "%s: %v", what, err)
		require.NotEmpty(t, detail.Message, what)
	}
	var trailer metadata.MD
	answer, err := s.GetFlightInfo(ctx, flighttest.Command(query), grpc.Trailer(&trailer))
	if err != nil {
		refused(err, trailer)
		return nil, false
	}
	for _, e := range answer.GetEndpoint() {
		g, err := read(ctx, s.Client, e.GetTicket(), grpc.Trailer(&trailer))
		if err != nil {
			refused(err, trailer)
			return nil, false
		}
		for _, row := range g.rows {
			rows = append(rows, fmt.Sprint(row))
		}
	}
	return rows, true
}
