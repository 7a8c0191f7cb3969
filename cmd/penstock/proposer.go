package main

import (
	"cmp"
	"context"
	"time"

	"github.com/penstock/penstock/cmd/penstock/backfill"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/loader/catalog"
)

// proposer lays out staging tables as penstock init backfill does. It implements flight.Proposer.
type proposer struct {
	config *config.Config // for the names of catalogs
	tables catalog.Catalog
}

func (p proposer) Propose(ctx context.Context, request flight.ProposeRequest) (*flight.Proposal, error) {
	target := backfill.Target{Dataset: request.Dataset, Others: request.Others}
	plan := backfill.StagingPlan{
		Table: request.Table, Key: request.Key, Buckets: request.Buckets, Unaligned: request.Unaligned, Sort: request.Sort,
		From: dayOf(request.From), To: dayOf(request.To),
	}
	for _, text := range request.Columns {
		feature, err := backfill.ParseFeature(text)
		if err != nil {
			return nil, err
		}
		plan.Features = append(plan.Features, feature)
	}
	if err := checkNamespace(request.Table); err != nil {
		return nil, err
	}
	if err := readTables(ctx, p.tables, &target); err != nil {
		return nil, err
	}
	if request.Shown {
		if err := checkAbsent(ctx, p.config, p.tables, request.Table); err != nil {
			return nil, err
		}
	}
	script, err := layOut(target, plan, request.Replaces)
	if err != nil {
		return nil, err
	}
	return answerOf(request, script), nil
}

// layOut returns the script for new features, or for one that replaces a column.
func layOut(target backfill.Target, plan backfill.StagingPlan, replaces string) (*backfill.Script, error) {
	if replaces != "" {
		return backfill.Replace(target, plan, replaces)
	}
	return backfill.Add(target, plan)
}

// dayOf returns a day that decode.Propose has checked; zero for "".
func dayOf(text string) time.Time {
	day, _ := time.Parse(time.DateOnly, cmp.Or(text, "0001-01-01"))
	return day
}

func answerOf(request flight.ProposeRequest, of *backfill.Script) *flight.Proposal {
	out := &flight.Proposal{
		Dataset: of.Dataset.Name, Table: request.Table, SQL: of.SQL, YAML: of.YAML(), Key: of.Layout.Key, Partition: of.Layout.Partition, Sort: of.Layout.Sort,
		Aligned: of.Layout.Aligned, StageFlags: of.Layout.StageFlags, Notes: of.Layout.Notes,
	}
	for _, c := range of.Layout.Columns {
		out.Columns = append(out.Columns, flight.ProposedColumn(c))
	}
	return out
}
