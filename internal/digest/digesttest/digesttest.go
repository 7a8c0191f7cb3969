// Package digesttest holds identities to their promise: every field counts.
package digesttest

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest"
)

// EveryFieldCounts changes each part of a value, one at a time, and demands
// another digest: fields, elements, entries and what pointers point to, however
// deep, and lists and maps that are longer or shorter by one. The value must be
// full, so that there is something to change: a nil pointer, an empty list or
// an empty map anywhere in it fails the test.
func EveryFieldCounts[T any](t *testing.T, value T) {
	t.Helper()
	before := digest.Of(value)
	require.Equal(t, before, digest.Of(copied(reflect.ValueOf(value)).Interface()), "a copy is the same value")
	c := changer{t: t, seen: map[string]string{before: "(as it was)"}}
	c.root = func() (reflect.Value, func() string) {
		whole := reflect.New(reflect.TypeFor[T]()).Elem()
		whole.Set(copied(reflect.ValueOf(value)))
		return whole, func() string { return digest.Of(whole.Interface()) }
	}
	c.walk(func(whole reflect.Value) reflect.Value { return whole }, reflect.TypeFor[T]().String())
}

// changer changes one part of a value after another.
type changer struct {
	t    *testing.T
	root func() (whole reflect.Value, digest func() string)
	seen map[string]string // digests, by what was changed
}

// try changes the part that at finds in a copy of the whole.
func (c *changer) try(at func(reflect.Value) reflect.Value, what string, change func(part reflect.Value)) {
	c.t.Helper()
	whole, of := c.root()
	change(at(whole))
	name := of()
	if other, ok := c.seen[name]; ok {
		c.t.Errorf("%s: the digest is that of %s", what, other)
	}
	c.seen[name] = what
}

// walk changes the part that at finds, and all parts of it.
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

// scalar changes a value that has no parts.
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

// open returns a field such that it may be set, exported or not.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() //nolint:gosec // of a copy of ours
}

// copied returns a copy that shares nothing that EveryFieldCounts changes.
func copied(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	own(out)
	return out
}

// own gives an addressable value parts of its own.
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
