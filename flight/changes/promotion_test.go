package changes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/promote"
)

// promoted is a Promoter that keeps its requests.
type promoted struct{ requests []promote.PromotionRequest }

func (p *promoted) Promote(_ context.Context, request promote.PromotionRequest) (promote.PromotionResult, error) {
	p.requests = append(p.requests, request)
	request.Progress(promote.PromotionProgress{Files: 3, FilesChecked: 1})
	request.Progress(promote.PromotionProgress{Files: 3, FilesDone: 2, Rows: 7})
	return promote.PromotionResult{Schema: 4}, nil
}

func (p *promoted) Demote(_ context.Context, request promote.DemotionRequest) (promote.Demotion, error) {
	return promote.Demotion{Table: request.Table, Dropped: request.Columns}, nil
}

// spec: change-2, change-3, change-4
func TestPromotionsNeedAllOfTheDataset(t *testing.T) {
	const body = `{"dataset": "homefeed", "entries": ["history"], "earlier": "continue", "progress": true}`
	rule := policy.AccessRule{Subjects: []string{"*"}, Read: []string{"*"}, Write: []string{"ml.impressions"}, Allow: []policy.Permission{policy.Promote}}
	limited, staging := rule, rule
	limited.Tables = []policy.TableLimits{{Name: "features.history", Filter: datasettest.Filter("score > 1")}}
	staging.Allow = []policy.Permission{policy.Stage, policy.Publish}
	hidden := rule
	hidden.Read = []string{"other"}
	for name, c := range map[string]struct {
		rule policy.AccessRule
		code codes.Code
	}{
		"all": {rule, codes.OK}, "some rows": {limited, codes.PermissionDenied}, "another right": {staging, codes.PermissionDenied}, "another dataset": {hidden, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			p := &promoted{}
			rules := &policy.Policy{Rules: []policy.AccessRule{c.rule}}
			s := serveTables(t, &writtenRows{}, flight.Options{Promoter: p, Policy: func() *policy.Policy { return rules }})
			got, err := results(t.Context(), s, "promote", body)
			if c.code != codes.OK {
				code, _ := flighttest.FailureOf(t, err, nil)
				require.Equal(t, c.code, code)
				require.Empty(t, p.requests)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, `{"progress": {"table": "ml.impressions", "step": "check", "files": 1, "of_files": 3}}`, got[0])
			require.JSONEq(t, `{"progress": {"table": "ml.impressions", "step": "rewrite", "rows_written": 7, "files": 2, "of_files": 3}}`, got[1])
			require.Equal(t, promote.Continue, p.requests[0].Earlier)
			require.Equal(t, "homefeed", p.requests[0].Dataset.Name)
			got, err = results(t.Context(), s, "demote", `{"table": "ml.impressions", "columns": ["a"]}`)
			require.NoError(t, err)
			require.Len(t, got, 1)
			_, err = results(t.Context(), s, "demote", `{"table": "ml.other", "columns": ["a"]}`)
			code, _ := flighttest.FailureOf(t, err, nil)
			require.Equal(t, codes.PermissionDenied, code)
		})
	}
}
