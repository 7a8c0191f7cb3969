package icebergcat

import "github.com/penstock/penstock/loader/catalog/locator"

// Wrap replaces what locates the catalog's tables, for tests.
func (c *Catalog) Wrap(wrap func(locator.Swapper) locator.Swapper) {
	if swapper, ok := c.source.locator.(locator.Swapper); ok {
		c.source.locator = wrap(swapper)
	}
}
