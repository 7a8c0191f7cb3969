package flight

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// keptFiles is a CacheAdmin with files of tables, and without statistics.
type keptFiles struct{ CacheAdmin }

// List implements CacheAdmin.
func (keptFiles) List() CacheList {
	return CacheList{Bytes: 30, Files: []CachedFile{
		{Table: "ml.people", File: "country=US/a.parquet"},
		{Table: "features.profiles", File: "b.parquet"},
		{Table: "hr.salaries", File: "c.parquet"},
		{Table: "hr.salaries", File: "d.parquet"},
	}}
}

// Statistics implements CacheAdmin.
func (keptFiles) Statistics(context.Context) (StatisticsOnDisk, error) {
	return StatisticsOnDisk{}, nil
}

// The files of tables whose snapshots a client may not see are counted, and not named.
//
// spec: cache-15
func TestCachedFilesOfHiddenTablesAreNotNamed(t *testing.T) {
	t.Parallel()
	s, _ := people{}.server(t, Options{Cache: keptFiles{}})
	for who, want := range map[context.Context][]string{
		alice(t): {"ml.people", "features.profiles", "hr.salaries", "hr.salaries"},
		bob(t):   {"features.profiles"}, // a column of ml.people is withheld
	} {
		body, err := s.act(who, "cache_ls", nil)
		require.NoError(t, err)
		var list CacheList
		require.NoError(t, json.Unmarshal(body, &list))
		var tables []string
		for _, f := range list.Files {
			tables = append(tables, f.Table)
		}
		require.Equal(t, want, tables)
		require.Equal(t, 4, len(tables)+list.Others)
		require.EqualValues(t, 30, list.Bytes)
	}
}
