// Package digesttest tests that every field of a value counts for its digest.
package digesttest

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest"
)

// EveryFieldCounts changes one part of a value at a time and requires that the
// digest changes: fields, elements, entries and the targets of pointers, at any
// depth, and slices and maps that are longer or shorter by one. A nil pointer,
// an empty slice or an empty map anywhere in the value fails the test, since
// there would be nothing to change.
func EveryFieldCounts[T any](t *testing.T, value T) {
	t.Helper()
	before := digest.Of(value)
	require.Equal(t, before, digest.Of(copied(reflect.ValueOf(value)).Interface()), "a copy is the same value")
	c := changer{t: t, seen: map[string]string{before: "the unchanged value"}}
	c.root = func() (reflect.Value, func() string) {
		whole := reflect.New(reflect.TypeFor[T]()).Elem()
		whole.Set(copied(reflect.ValueOf(value)))
		return whole, func() string { return digest.Of(whole.Interface()) }
	}
	c.walk(func(whole reflect.Value) reflect.Value { return whole }, reflect.TypeFor[T]().String())
}

// changer changes the parts of a value one at a time.
type changer struct {
	t    *testing.T
	root func() (whole reflect.Value, digest func() string)
	seen map[string]string // by digest: the part that was changed
}

// try changes the part that at returns of a copy of the value.
func (c *changer) try(at func(reflect.Value) reflect.Value, what string, change func(part reflect.Value)) {
	c.t.Helper()
	whole, of := c.root()
	change(at(whole))
	name := of()
	if other, ok := c.seen[name]; ok {
		c.t.Errorf("%s: the digest equals that of %s", what, other)
	}
	c.seen[name] = what
}

// walk changes the part that at returns, and then each part of it.
func (c *changer) walk(at func(reflect.Value) reflect.Value, what string) {
	c.t.Helper()
	whole, _ := c.root()
	part := at(whole)
	switch kind := part.Kind(); kind {
	case reflect.Struct:
		for i := range part.NumField() {
			c.walk(func(w reflect.Value) reflect.Value { return open(at(w).Field(i)) }, what+"."+part.Type().Field(i).Name)
		}
	case reflect.Array:
		for i := range part.Len() {
			c.walk(func(w reflect.Value) reflect.Value { return at(w).Index(i) }, what+"[]")
		}
	case reflect.Slice:
		require.NotZero(c.t, part.Len(), "%s is empty: nothing in it can be changed", what)
		c.try(at, what+" (longer)", func(p reflect.Value) { p.Set(reflect.Append(p, reflect.Zero(p.Type().Elem()))) })
		c.try(at, what+" (shorter)", func(p reflect.Value) { p.Set(p.Slice(0, p.Len()-1)) })
		for i := range part.Len() {
			c.walk(func(w reflect.Value) reflect.Value { return at(w).Index(i) }, what+"[]")
		}
	case reflect.Map:
		c.entries(at, what, part)
	case reflect.Pointer:
		require.False(c.t, part.IsNil(), "%s is nil: nothing in it can be changed", what)
		c.try(at, what+" (nil)", func(p reflect.Value) { p.SetZero() })
		c.walk(func(w reflect.Value) reflect.Value { return at(w).Elem() }, what)
	case reflect.Interface:
		require.False(c.t, part.IsNil(), "%s is nil: nothing in it can be changed", what)
		c.try(at, what+" (nil)", func(p reflect.Value) { p.SetZero() })
	default:
		c.try(at, what, func(p reflect.Value) { scalar(c.t, what, p) })
	}
}

func (c *changer) entries(at func(reflect.Value) reflect.Value, what string, part reflect.Value) {
	c.t.Helper()
	require.NotZero(c.t, part.Len(), "%s is empty: nothing in it can be changed", what)
	key := part.MapKeys()[0]
	c.try(at, what+" (shorter)", func(p reflect.Value) { p.SetMapIndex(key, reflect.Value{}) })
	c.try(at, what+" (another key)", func(p reflect.Value) {
		other, value := reflect.New(key.Type()).Elem(), p.MapIndex(key)
		other.Set(key)
		scalar(c.t, what, other)
		p.SetMapIndex(key, reflect.Value{})
		p.SetMapIndex(other, value)
	})
	c.try(at, what+" (another value)", func(p reflect.Value) {
		require.False(c.t, p.MapIndex(key).IsZero(), "%s holds a zero value: nothing in it can be changed", what)
		p.SetMapIndex(key, reflect.Zero(p.Type().Elem()))
	})
}

// scalar changes a value without parts.
func scalar(t *testing.T, what string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() ^ 1<<6)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1<<6)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(v.Float() + 0.5)
	case reflect.String:
		v.SetString(v.String() + "?")
	default:
		require.Fail(t, "cannot be changed", "%s is a %s", what, v.Kind())
	}
}

// open returns a field, exported or not, in settable form.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() //nolint:gosec // the field of a copy
}

// copied returns a deep copy of everything that EveryFieldCounts changes.
func copied(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	own(out)
	return out
}

// own replaces the parts that an addressable value shares by copies.
func own(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			own(open(field))
		}
	case reflect.Array:
		for i := range v.Len() {
			own(v.Index(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		elements := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(elements, v)
		v.Set(elements)
		for i := range v.Len() {
			own(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		entries := reflect.MakeMap(v.Type())
		for each := v.MapRange(); each.Next(); {
			entries.SetMapIndex(each.Key(), each.Value())
		}
		v.Set(entries)
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		target := reflect.New(v.Type().Elem())
		target.Elem().Set(v.Elem())
		v.Set(target)
		own(target.Elem())
	default:
	}
}
