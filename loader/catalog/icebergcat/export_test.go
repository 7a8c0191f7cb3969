package icebergcat

import "github.com/penstock/penstock/loader/catalog/locator"

// Wrap replaces what locates the catalog's tables, for tests.
func (c *Catalog) Wrap(wrap func(locator.Swapper) locator.Swapper) {
	if swapper, ok := c.source.Locator.(locator.Swapper); ok {
		c.source.Locator = wrap(swapper)
	}
}
