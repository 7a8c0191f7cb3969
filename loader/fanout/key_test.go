package fanout_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/plan"
)

// mayDiffer lists the fields of a reading that members of a group may have different. The plan's id distinguishes algorithms, and batches of
// requests from those of rows; the key has the size of batches where it decides the steps.
var mayDiffer = []string{"Cache", "Cursor", "Limit", "Every", "Columns", "BatchRows", "GlobalBatchRows", "BatchRequests", "Algorithm", "Job"}

// TestKeyHasAllOfTheReading changes each field of a reading: streams share nothing if they
// differ in a field that is not listed here.
//
// spec: status-7
func TestKeyHasAllOfTheReading(t *testing.T) {
	t.Parallel()
	p := loader.Planned{Plan: &plan.Plan{ID: "p", TablesID: "f", Lanes: make([]plan.Lane, 1)}}
	key := func(p loader.Planned, o loader.StreamOptions) string {
		k, err := fanout.KeyOf(p, o, 0)
		require.NoError(t, err)
		return k
	}
	same := key(p, loader.StreamOptions{})
	fields := reflect.TypeFor[dataset.Reading]()
	for i := range fields.NumField() {
		changed, name := p, fields.Field(i).Name
		of := reflect.ValueOf(&changed.Query.Reading).Elem().Field(i)
		switch of.Kind() {
		case reflect.Slice:
			of.Set(reflect.MakeSlice(of.Type(), 1, 1))
		case reflect.Struct:
			of.Field(of.NumField() - 1).SetInt(7)
		case reflect.String:
			of.SetString("other")
		case reflect.Int, reflect.Int64:
			of.SetInt(7)
		default:
			t.Fatalf("%s is of kind %s: change it here", name, of.Kind())
		}
		if name == "Cursor" {
			changed.Query.Cursor[0].Lanes = 1
		}
		require.Equal(t, slices.Contains(mayDiffer, name), key(changed, loader.StreamOptions{}) == same, name)
	}
	off := p
	off.Query.Cache = dataset.CacheOff
	require.NotEqual(t, same, key(off, loader.StreamOptions{}), "a group that uses the cache is not for streams that do not")
	require.NotEqual(t, same, key(p, loader.StreamOptions{Part: plan.Part{From: 1, To: 2}}))
	require.Equal(t, same, key(p, loader.StreamOptions{Peer: "another"}))
	for name, changed := range map[string]plan.Plan{"plan": {ID: "q", TablesID: "f"}, "tables": {ID: "p", TablesID: "g"}} {
		changed.Lanes = p.Lanes
		other := p
		other.Plan = &changed
		require.NotEqual(t, same, key(other, loader.StreamOptions{}), name)
	}
	other := p
	other.Plan = &plan.Plan{ID: "p", TablesID: "f", FilesID: "of other columns", Lanes: p.Lanes}
	require.Equal(t, same, key(other, loader.StreamOptions{}))
}

// TestKeyHasSizesWhereTheyDecideSteps changes the size of batches, and the number of steps before a
// stream's start.
func TestKeyHasSizesWhereTheyDecideSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *loader.Planned)
		differ bool // whether streams of other sizes may share rows
	}{
		"one lane":                 {func(*loader.Planned) {}, true},
		"one lane in each shard":   {func(p *loader.Planned) { p.Lanes, p.Query.Shard.Of = make([]plan.Lane, 2), 2 }, true},
		"two lanes":                {func(p *loader.Planned) { p.Lanes = make([]plan.Lane, 2) }, false},
		"batches of requests":      {func(p *loader.Planned) { p.Rows.Requests = true }, false},
		"the end depends on steps": {func(p *loader.Planned) { p.Query.Tail = dataset.TailDrop }, false},
	} {
		p := loader.Planned{Plan: &plan.Plan{Lanes: make([]plan.Lane, 1)}, BatchRows: 8}
		c.change(&p)
		key := func(rows int, ahead int64) string {
			p := p
			p.BatchRows = rows
			k, err := fanout.KeyOf(p, loader.StreamOptions{}, ahead)
			require.NoError(t, err)
			return k
		}
		require.Equal(t, c.differ, key(8, 0) == key(4, 0), name)
		require.Equal(t, c.differ, key(8, 0) == key(8, 3), name)
	}
}
