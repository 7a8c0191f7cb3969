package datasettest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fitted"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// words returns the non-default values of enumerated types, and values of types without
// exported fields.
func words() map[reflect.Type][]any {
	out := map[reflect.Type][]any{}
	for _, of := range [][]any{
		{dataset.Shuffled},
		{dataset.ShuffleRequests, dataset.ShuffleRows, dataset.ShuffleSplits},
		{dataset.TailDrop},
		{dataset.CountExact},
		{dataset.CacheFill, dataset.CacheOff},
		{dataset.EndpointsSplits},
		{dataset.WireIndexed, dataset.WireAuto, dataset.WireGrouped},
		{dataset.KeepLast},
		{dataset.ZoneUTC},
		{dataset.ScopePartition},
		{dataset.SampleByKey},
		{dataset.AlignLag, dataset.AlignLatestBefore},
		{rule.Inner, rule.Semi, rule.Anti, rule.Overlay},
		{rule.NullsKeep},
		{rule.MissingError},
		{rule.DuplicatesFirst, rule.DuplicatesLast, rule.DuplicatesAll},
		{rule.StrategyIndex, rule.StrategyMerge, rule.StrategyZip, rule.StrategyBroadcast},
		{Filter("a = 1"), Filter("b < 'x'")},
		{90 * time.Minute},
		{json.RawMessage(`{"dataset":"d"}`)},
		{fitted.Quantiles, fitted.Vocabulary},
		{new(expr.List)},
	} {
		out[reflect.TypeOf(of[0])] = of
	}
	out[reflect.TypeFor[any]()] = []any{int64(7), 2.5, "text", true}
	return out
}

// filler sets values to distinct nonzero values.
type filler struct {
	words map[reflect.Type][]any
	last  int // the last number used
}

// Fill sets every exported field of the value that of points to, at any depth, to
// distinct nonzero values. The test fails if the type of a field is not supported.
func Fill(t *testing.T, of any) {
	t.Helper()
	f := filler{words: words()}
	require.NoError(t, f.fill(reflect.ValueOf(of).Elem(), reflect.TypeOf(of).Elem().Name()))
}

func (f *filler) fill(v reflect.Value, path string) error {
	if values := f.words[v.Type()]; values != nil {
		v.Set(reflect.ValueOf(values[0]))
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if err := f.fill(v.Field(i), path+"."+v.Type().Field(i).Name); err != nil {
				return err
			}
		}
		return nil
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			if err := f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if err := f.fill(key, path+" (key)"); err != nil {
				return err
			}
			if err := f.fill(value, path+"[]"); err != nil {
				return err
			}
			v.SetMapIndex(key, value)
		}
		return nil
	default:
		return f.scalar(v, path)
	}
}

// scalar sets a value without parts.
func (f *filler) scalar(v reflect.Value, path string) error {
	f.last++
	switch kind := v.Kind(); {
	case !v.CanSet():
		return fmt.Errorf("%s: is not exported; give its type a value in words", path)
	case v.Type().PkgPath() != "":
		return fmt.Errorf("%s: words has no value of type %s", path, v.Type())
	case kind == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(int64(f.last))
	case v.CanFloat():
		v.SetFloat(float64(f.last) + 0.5)
	case kind == reflect.String:
		v.SetString(fmt.Sprintf("f%d", f.last))
	default:
		return fmt.Errorf("%s: a value of type %s cannot be filled", path, v.Type())
	}
	return nil
}

// Equal requires that two values are equal, and names the field that differs.
func Equal[T any](t *testing.T, want, got T, what string) {
	t.Helper()
	a, b := reflect.ValueOf(want), reflect.ValueOf(got)
	if a.Kind() != reflect.Struct {
		require.Equal(t, want, got, what)
		return
	}
	for i := range a.NumField() {
		if name := a.Type().Field(i).Name; a.Type().Field(i).IsExported() {
			require.Equal(t, a.Field(i).Interface(), b.Field(i).Interface(), "%s: field %s did not come back", what, name)
		}
	}
	require.Equal(t, want, got, what)
}

// full fails if any field of a value, at any depth, is zero.
func full(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if _, one := words()[v.Type()]; !one && v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			full(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
		return
	}
	if path == "Cursor.Rows.Inline" || path == "Cursor.Rows.With" {
		return // a plan has the digest of its dataset instead
	}
	require.False(t, v.IsZero(), "%s is not set", path)
	switch v.Kind() {
	case reflect.Pointer:
		full(t, v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			full(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			full(t, v.MapIndex(key), fmt.Sprintf("%s[%s]", path, key))
		}
	default:
	}
}

// Cursor returns a valid cursor with every field set, at any depth.
func Cursor(t *testing.T) dataset.Cursor {
	t.Helper()
	var c dataset.Cursor
	Fill(t, &c)
	c.Version = dataset.CursorVersion
	c.Inline, c.With = nil, nil // a plan has the digest of its dataset instead
	c.Filter = Filter("a < 1")
	c.Sample = &dataset.Sample{Hash: &dataset.HashRange{From: 0.125, To: 0.5}, By: dataset.SampleByKey, Rate: 0.25, Where: Filter("label = 0")}
	c.Lanes, c.Shard = 4, dataset.Shard{Index: 1, Of: 2}
	c.ShuffleParts = 5 // few are allowed
	for i := range c.At {
		c.At[i].Lane = c.Shard.Index + i*c.Shard.Of
	}
	c.Counted = dataset.NewCounts([]int64{31, 37, 41, 43}).Of(c.Shard)
	full(t, reflect.ValueOf(c), "Cursor")
	return c
}
