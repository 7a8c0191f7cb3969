package icebergcat_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is the conformance suite's view of a writer and a reader of one file.
func rig(t *testing.T) catalogtest.Rig {
	t.Helper()
	w := icebergtest.NewWriter(t)
	return w.Rig(w.Open(t))
}

func TestConforms(t *testing.T) {
	catalogtest.Run(t, rig)
}

func TestPostgresConforms(t *testing.T) {
	s := postgrestest.Start(t)
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := icebergtest.NewPostgresWriter(t, s)
		return w.Rig(w.Open(t))
	})
}
