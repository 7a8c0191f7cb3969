package maintenance_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a catalog in a folder, with a Stager and a Rewriter for it.
type rig struct {
	*stagetest.Rig
	rewriter *maintenance.Rewriter
}

func newRig(t *testing.T, limit int64, change func(*icebergcat.Options), rules ...errstore.Rule) *rig {
	t.Helper()
	return over(stagetest.New(t, limit, change, rules...))
}

// over adds a Rewriter to a stagetest.Rig.
func over(r *stagetest.Rig) *rig {
	return &rig{Rig: r, rewriter: maintenance.New(maintenance.Options{
		Route: func(table string) (maintenance.Tables, string, error) { return &r.Tables, table, nil },
		Clock: time.Now, Rows: r.Rows, Read: r.Tables.Read(r.Budget), Files: &r.Tables, Named: r.Tables.Named(r.Budget),
	})}
}

// broken returns the rig with storage that fails according to the rules.
func (r *rig) broken(t *testing.T, rules ...errstore.Rule) *rig {
	t.Helper()
	return over(r.Broken(t, rules...))
}
