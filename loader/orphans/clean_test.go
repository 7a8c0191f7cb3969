package orphans_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/orphans"
)

// Orphan files that are sent page by page equal the orphan files that were found.
//
// spec: change-3
func TestOrphanFilesArePaged(t *testing.T) {
	t.Parallel()
	var found []orphans.TableOrphans
	for i, n := range []int{0, 1, 1000, 1001, 2500} {
		table := orphans.TableOrphans{
			Table: fmt.Sprintf("ml.t%d", i), Removed: n / 2, Bytes: int64(7 * n), Files: []orphans.OrphanFile{}, NotSearched: []string{"s3://elsewhere"},
		}
		for at := range n {
			table.Files = append(table.Files, orphans.OrphanFile{Location: fmt.Sprintf("/t%d/%d", i, at), Modified: old()})
		}
		found = append(found, table)
	}
	var got orphans.Paged
	pages := orphans.Pages(found)
	require.Len(t, pages, 1+1+1+2+3)
	for _, page := range pages {
		require.LessOrEqual(t, len(page.Files), 1000)
		text, err := json.Marshal([]orphans.TableOrphans{page})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &got))
	}
	require.Equal(t, found, []orphans.TableOrphans(got))
}
