package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/internal/config"
)

// sparkPrint are the flags that print a promotion as Spark SQL.
type sparkPrint struct{ as, catalog *string }

// printSpark is the value of --print.
const printSpark = "spark"

// sparkPrintFlags adds the flags of a sparkPrint to a command.
func sparkPrintFlags(c *cobra.Command) sparkPrint {
	return sparkPrint{
		as:      cmdline.Text(c, "print", "spark", "spark: print Spark SQL that does the same, and change nothing"),
		catalog: cmdline.Text(c, "spark-catalog", "NAME", "with --print: the name of the catalog in Spark (default: names are as in the config file)"),
	}
}

// wanted reports whether SQL is printed.
func (s sparkPrint) wanted() (bool, error) {
	switch {
	case *s.as == printSpark:
		return true, nil
	case *s.as != "":
		return false, cmdline.Errorf("--print %s: want spark", *s.as)
	case *s.catalog != "":
		return false, cmdline.Errorf("--spark-catalog needs --print spark")
	}
	return false, nil
}

// printPromotion prints the promotion of entries of a dataset as Spark SQL.
func (p process) printPromotion(ctx context.Context, flag string, args []string, s sparkPrint) error {
	return p.withConfig(ctx, flag, func(ctx context.Context, c *config.Config, e *engine.Engine) error {
		tables, err := e.CatalogSet(c)
		if err != nil {
			return err
		}
		target, err := backfillTarget(ctx, c, tables, args[0])
		if err != nil {
			return err
		}
		target.SQLName = func(table string) string { return sparkName(c, table, *s.catalog) }
		text, err := backfill.Promote(target, args[1:])
		if err != nil {
			return err
		}
		_, err = io.WriteString(p.stdout, text)
		return err
	})
}
