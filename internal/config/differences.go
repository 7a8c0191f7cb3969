package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// CatalogsUnlike returns the names of the catalogs in which two configurations differ, in
// ascending order. The order of properties and their places in the file do not count.
func (c *Config) CatalogsUnlike(o *Config) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.Catalogs)) {
		other, there := o.Catalogs[name]
		if !there || !reflect.DeepEqual(normalized(c.Catalogs[name]), normalized(other)) {
			out = append(out, name)
		}
	}
	for name := range o.Catalogs {
		if _, there := c.Catalogs[name]; !there {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// normalized returns a catalog with its properties in the order of their names and without their
// lines.
func normalized(c dataset.Catalog) dataset.Catalog {
	c.Properties = slices.Clone(c.Properties)
	for i := range c.Properties {
		c.Properties[i].Line = 0
	}
	slices.SortFunc(c.Properties, func(a, b dataset.Property) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// SettingsUnlike returns the names of the settings in which two configurations differ, in the order
// of Settings. Different texts for the same value, such as 1GiB and 1024MiB, do not count as a
// difference.
func (c *Config) SettingsUnlike(o *Config) []string {
	var out []string
	for _, s := range Settings() {
		if !reflect.DeepEqual(c.only(s), o.only(s)) {
			out = append(out, s.Name)
		}
	}
	return out
}

// only returns settings of which all are zero, except s, which has the value that the configuration
// gives it.
func (c *Config) only(s Setting) Server {
	var out Server
	v, given := c.given[s.Name]
	if !given {
		v.text = s.Default
	}
	_ = s.set(&out, v) // a value that was given is valid, and a default may be an empty text
	return out
}
