package parquet

import (
	"github.com/penstock/penstock/internal/parquet/decoder"
)

// needsLevelCheck reports whether the file requires a column, something in it, or a
// struct around it that the table does not require. That is legal, but it may also be a
// damaged footer, and then the library would read levels as values.
func (r *Reader) needsLevelCheck(c column) bool {
	if c.depth == 0 || c.conversion.Required {
		return c.conversion.AnyLoose()
	}
	return int(r.file.meta.Schema.Column(c.leaves[0]).MaxDefinitionLevel()) <= c.depth
}

// checkLevels returns an error if the levels or values in the pages of a column do not
// match the file's schema.
func (r *Reader) checkLevels(c column) error {
	for _, leaf := range c.leaves {
		p, err := r.pages(leaf)
		if err != nil {
			return err
		}
		err = decoder.CheckContent(p, r.file.meta.Schema.Column(leaf))
		p.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
