package lane

import (
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Grouped describes batches with a row for each request: request-level columns have one
// value, and each other column has a list of the values of the request's rows.
type Grouped struct {
	Once  []bool // for each of Options.Columns: whether the rows of a request must have the same value, which is checked
	Table string // of the requests, for errors
}

// groupedSources is like reserveSources, for batches that have a row for each request.
func (ct *cutter) groupedSources(e *computation, runs []run, rows int64, reserve func(bytes int64) error) ([]source, int64, error) {
	if rows > math.MaxInt32 {
		return nil, 0, fault.New(fault.Exhausted, "the requests of a batch have %d rows, more than lists can hold", rows).
			WithRemedy("ask for fewer requests with batch_requests")
	}
	of := requestsOf(runs)
	once := int64(0)
	for _, is := range ct.options.Grouped.Once {
		if is {
			once++
		}
	}
	// The offsets, which all lists share; the numbers of first rows for each column with one value
	// per request; and one bool for each row.
	if err := reserve(int64(arrow.Int32SizeBytes)*(of.requests+1)*(1+once) + rows); err != nil {
		return nil, 0, err
	}
	offsets, same := of.offsets(), make([]bool, rows)
	made, all, first := make([]source, 0, len(ct.options.Columns)), e.rowsOf(runs), e.rows(of.first, of.requests)
	for i, c := range ct.options.Columns {
		field := ct.options.Schema.Field(i)
		if !ct.options.Grouped.Once[i] {
			items := field.Type.(*arrow.ListType).ElemField()
			items.Name = field.Name // for errors
			one, err := ct.plain(c, items, all, runs)
			if err != nil {
				return made, 0, err
			}
			made = append(made, &listed{field: field, items: one, offsets: offsets, requests: int(of.requests)})
			continue
		}
		if err := ct.checkOnce(c, field.Name, of, same); err != nil {
			return made, 0, err
		}
		one, err := c.source(field, first)
		if err != nil {
			return made, 0, err
		}
		made = append(made, one)
	}
	return made, of.requests, nil
}

// requests holds the rows of a batch, with the rows at which requests begin.
type requests struct {
	runs     []run
	requests int64
}

func requestsOf(runs []run) requests {
	of := requests{runs: runs}
	for _, x := range runs {
		of.requests += int64(len(x.begins))
	}
	return of
}

// offsets returns the offsets of lists of the rows of each request.
func (of requests) offsets() *memory.Buffer {
	offsets, before := make([]int32, 0, of.requests+1), int32(0)
	for _, x := range of.runs {
		for _, row := range x.begins {
			offsets = append(offsets, before+row)
		}
		before += int32(x.rows)
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(append(offsets, before)))
}

// first returns segments of the first row of each request.
func (of requests) first(c Column) []batch.Segment {
	segments := make([]batch.Segment, 0, len(of.runs))
	for _, x := range of.runs {
		all := c.Segment(x.batch, x.from, x.rows)
		rows := make([]int32, len(x.begins))
		for i, row := range x.begins {
			rows[i] = all.Row(int(row))
		}
		segments = append(segments, batch.Segment{Values: all.Values, Indices: rows})
	}
	return segments
}

// checkOnce fails if the rows of a request have different values in a column. same is scratch
// memory with one element for each row.
func (ct *cutter) checkOnce(c Column, name string, of requests, same []bool) error {
	if c.Made != nil {
		for i, one := range c.Made.Columns {
			if err := ct.checkOnce(one, c.Made.Schema.Field(i).Name, of, same); err != nil {
				return err
			}
		}
		return nil
	}
	var before batch.Segment // of the previous run
	for _, x := range of.runs {
		here := c.Segment(x.batch, x.from, x.rows)
		at := differs(before, here, x.begins, same[:x.rows])
		if at >= 0 {
			return ct.notOnce(name, x, at)
		}
		before = here
	}
	return nil
}

// differs returns the first row of a segment that has a different value than the row before it
// although it does not begin a request, or -1 if there is no such row. before holds the rows before
// the segment.
func differs(before, here batch.Segment, begins []int32, same []bool) int {
	for i := range same {
		same[i] = true
	}
	if here.Indices == nil {
		part := array.NewSlice(here.Values, int64(here.From), int64(here.From+here.Rows))
		batch.Repeats(part, same)
		part.Release()
	} else {
		for i := 1; i < len(same); i++ {
			a, b := here.Indices[i-1], here.Indices[i]
			same[i] = a == b || batch.SameRow(here.Values, int(a), here.Values, int(b))
		}
	}
	if n := before.Len(); n > 0 {
		same[0] = batch.SameRow(before.Values, int(before.Row(n-1)), here.Values, int(here.Row(0)))
	}
	for i, is := range same {
		if len(begins) > 0 && int(begins[0]) == i {
			begins = begins[1:]
		} else if !is {
			return i
		}
	}
	return -1
}

// notOnce returns the error for rows of a request that have different values.
func (ct *cutter) notOnce(column string, x run, row int) error {
	key := make([]string, len(ct.options.Request))
	for i, k := range ct.options.Request {
		key[i] = x.batch.Schema().Field(k).Name + " = " + shorten(batch.Text(x.batch.Column(k), x.from+row))
	}
	return fault.New(fault.Invalid, "column %s is sent once for a request, but the rows of request %s have different values", column, strings.Join(key, ", ")).
		In(ct.options.Grouped.Table, "").
		WithRemedy("remove the columns that are not constant within a request from training.request_level, or repair the rows of that request")
}

// listed is a column of lists: for each request, the values of its rows.
type listed struct {
	field    arrow.Field
	items    source
	offsets  *memory.Buffer
	requests int
}

func (l *listed) size(g *batch.Gatherer) (int64, error) { return l.items.size(g) }

func (l *listed) column(g *batch.Gatherer) (arrow.Array, error) {
	items, err := l.items.column(g)
	if err != nil {
		return nil, err
	}
	defer items.Release()
	data := array.NewData(l.field.Type, l.requests, []*memory.Buffer{nil, l.offsets}, []arrow.ArrayData{items.Data()}, 0, 0)
	defer data.Release()
	return array.NewListData(data), nil
}

func (l *listed) release() { l.items.release() }
