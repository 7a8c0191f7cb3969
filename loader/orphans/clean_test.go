package orphans_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/orphans"
)

// Leftovers that are sent page by page are those that were found.
//
// spec: change-3
func TestLeftoversArePaged(t *testing.T) {
	t.Parallel()
	var found []orphans.TableLeftovers
	for i, n := range []int{0, 1, 1000, 1001, 2500} {
		table := orphans.TableLeftovers{
			Table: fmt.Sprintf("ml.t%d", i), Removed: n / 2, Bytes: int64(7 * n), Leftovers: []orphans.LeftoverFile{}, NotSearched: []string{"s3://elsewhere"},
		}
		for at := range n {
			table.Leftovers = append(table.Leftovers, orphans.LeftoverFile{Location: fmt.Sprintf("/t%d/%d", i, at), Modified: old()})
		}
		found = append(found, table)
	}
	var got orphans.Paged
	pages := orphans.Pages(found)
	require.Len(t, pages, 1+1+1+2+3)
	for _, page := range pages {
		require.LessOrEqual(t, len(page.Leftovers), 1000)
		text, err := json.Marshal([]orphans.TableLeftovers{page})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &got))
	}
	require.Equal(t, found, []orphans.TableLeftovers(got))
}
