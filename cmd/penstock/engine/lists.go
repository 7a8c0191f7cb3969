package engine

import (
	"path/filepath"
	"slices"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/fitted"
)

// ReadLists reads the files of the fitted lists of a configuration, and adds the values to its datasets. It
// fails if any list cannot be read. Calls must not overlap.
func (e *Engine) ReadLists(c *config.Config) error {
	var paths, names []string
	var wants []fitted.Want
	for _, d := range c.Datasets {
		for _, f := range d.Fitted {
			path := f.File
			if !filepath.IsAbs(path) {
				path = filepath.Join(c.Dir(), path)
			}
			paths, names = append(paths, path), append(names, fault.FieldPath(fault.FieldPath(fault.FieldPath("datasets", d.Name), "fitted"), f.Name))
			wants = append(wants, fitted.Want{Digest: f.Digest, Column: f.Column, Kind: f.Kind})
		}
	}
	lists, at, err := e.lists.Read(paths, wants)
	if err != nil {
		return fault.Op(err, "%s: %s", c.File, names[at])
	}
	for i, d := range c.Datasets {
		c.Datasets[i].Fitted = slices.Clone(d.Fitted)
		for k := range d.Fitted {
			c.Datasets[i].Fitted[k].List, lists = lists[0], lists[1:]
		}
	}
	return nil
}
