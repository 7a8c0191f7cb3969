package dataset_test

import (
	"maps"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// TestRowsDigestCountsEveryField checks that plans whose rows differ in any field have
// different digests, and that Differences names the field. The test fails if a field is
// added to Rows but not to Digest and Differences.
//
// spec: cursor-20, order-11
func TestRowsDigestCountsEveryField(t *testing.T) {
	t.Parallel()
	whole := datasettest.Cursor(t)
	for field := range reflect.TypeFor[dataset.Rows]().Fields() {
		if field.Name == "Inline" || field.Name == "With" {
			continue // a plan has the digest of its dataset instead
		}
		other := whole
		value := reflect.ValueOf(&other.Rows).Elem().FieldByIndex(field.Index)
		require.False(t, value.IsZero(), field.Name)
		value.SetZero()
		require.NotEqual(t, whole.Digest(), other.Digest(), "Digest lacks %s", field.Name)
		require.NotEmpty(t, dataset.Differences(whole, other), "Differences lacks %s", field.Name)
		resumed := dataset.Query{Rows: other.Rows, Reading: dataset.Reading{Cursor: dataset.Cursors{whole}}}
		if field.Name == "Dataset" || field.Name == "Requests" {
			continue // the query sets them
		}
		require.Equal(t, reflect.ValueOf(whole.Rows).FieldByIndex(field.Index).Interface(),
			reflect.ValueOf(resumed.Defaults().Rows).FieldByIndex(field.Index).Interface(), "a resumed query takes %s from its cursor", field.Name)
	}
}

// TestPinsOfEntriesThatACursorLacks checks that a query keeps the pins of tables that its
// cursor does not have, and takes those of all others from the cursor.
//
// spec: cursor-28
func TestPinsOfEntriesThatACursorLacks(t *testing.T) {
	t.Parallel()
	added := dataset.TablePin{UUID: "ad", Snapshot: 3, Schema: 1}
	q := dataset.Query{
		Rows:    dataset.Rows{Dataset: "d", Pin: dataset.Pin{Staging: map[string]dataset.TablePin{"added": added}}},
		Reading: dataset.Reading{Cursor: dataset.Cursors{datasettest.Shards()[0]}},
	}
	want := maps.Clone(datasettest.Shards()[0].Pin.Staging)
	want["added"] = added
	require.Equal(t, want, q.Defaults().Pin.Staging)
	require.Equal(t, datasettest.Shards()[0].Pin.Training, q.Defaults().Pin.Training)
}
