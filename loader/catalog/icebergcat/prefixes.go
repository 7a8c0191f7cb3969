package icebergcat

import (
	"path/filepath"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/dataset"
)

// prefixes returns the prefixes under which the files of all tables may be. If AllowedPrefixes is
// empty, this is the warehouse, if it is a location; Source.prefixesOf then adds the folder of each
// table.
func (o Options) prefixes() (out store.Prefixes, err error) {
	if len(o.AllowedPrefixes) > 0 {
		places := make([]string, len(o.AllowedPrefixes))
		for i, prefix := range o.AllowedPrefixes {
			if places[i], err = o.absolute(prefix); err != nil {
				return out, err
			}
		}
		if out, err = o.Stores.Prefixes(places...); err != nil {
			return out, fault.InvalidField("allowed_prefixes", "%s", fault.As(err).Message).WithRemedy("%s", fault.As(err).Remedy)
		}
		return out, nil
	}
	if o.Warehouse == "" || o.warehouseIsName() || o.Type != dataset.CatalogDirectory && !o.Stores.Serves(o.Warehouse) {
		return out, nil
	}
	place, err := o.absolute(o.Warehouse)
	if err == nil {
		out, err = o.Stores.Prefixes(place)
	}
	return out, err
}

// warehouseIsName reports whether the warehouse is a name that only the catalog's server
// understands, and not a location. Only REST servers have such names; for the other types of
// catalogs, the warehouse is a location, which may be a relative path.
func (o Options) warehouseIsName() bool {
	return o.Type == dataset.CatalogREST && store.Scheme(o.Warehouse) == "" && !filepath.IsAbs(o.Warehouse)
}

// absolute returns a location with an absolute path: a relative path starts from Options.BaseDir.
func (o Options) absolute(location string) (string, error) {
	if store.Scheme(location) != "" || filepath.IsAbs(location) || location == "" {
		return location, nil
	}
	return filepath.Abs(filepath.Join(o.BaseDir, location))
}
