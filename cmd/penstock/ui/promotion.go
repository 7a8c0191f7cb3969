package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/promote"
)

// Promotions runs penstock promote in processes of its own, with the rights of this program's config file.
type Promotions interface {
	// Start starts a promotion, or continues one. It returns Conflict if one of the dataset runs.
	Start(dataset string, entries []string, earlier decode.EarlierPromotion) error
	State(dataset string) (at children.State, found bool)
	Stop(dataset string) bool
	// SparkSQL returns the promotion as Spark SQL.
	SparkSQL(ctx context.Context, dataset string, entries []string) (string, error)
	// Memory is the memory budget of a promotion, in bytes.
	Memory() int64
}

// dryRunTime bounds a dry run, which reads the footers of all files of a table.
const dryRunTime = 2 * time.Minute

// promotionBody is the page on which entries of a dataset are promoted.
type promotionBody struct {
	confirmation
	Name    string // the dataset
	Link    string // its page
	Entries []entryChoice
	Run     *promotionRun // nil: none was started
	// The following are set if entries are chosen and none is promoted now.
	Chosen          []string
	Result          *promotionResult
	Failure, Remedy string // of the dry run
	Starts          bool   // this program can start it
	Memory          string
	Job             string
	Spark           string
	SparkFailure    string
	Unequal         string // why a choice between continuing and beginning again is needed; "": none is
}

// promotionRun is a promotion that was started by a page.
type promotionRun struct {
	commandRun
	Result *promotionResult // nil: it runs, or has failed
}

// entryChoice is an entry that can be chosen.
type entryChoice struct {
	Name   string
	Chosen bool
}

// promotionResult is a result of promote, as a page shows it.
type promotionResult struct {
	Table, TableLink, DemoteLink string
	Columns                      []promotedColumn
	Done                         bool // all files have the columns, and the schema too
	Existed                      bool // the schema has the columns
	Facts                        []fact
	Readers                      []string // the datasets that can no longer be read
}

// promotedColumn is a column that the training table gets.
type promotedColumn struct{ Name, Entry, Type, Old string }

// promoting is the page on which entries are promoted. If entries are chosen, it makes a dry run.
func (p *pages) promoting(ctx context.Context, r *http.Request) (shown, error) {
	name, chosen := r.PathValue("name"), r.URL.Query()["entry"]
	body := promotionBody{Name: name, Link: "/datasets/" + pathOf(name)}
	body.confirmation = confirmation{Action: "/promotions/" + pathOf(name), Token: p.forms.token(r, "promotion", name)}
	what := shown{Title: "Promote " + name, Section: "datasets"}
	if p.Promotions != nil {
		if at, found := p.Promotions.State(name); found {
			body.Run = runOfPromotion(at)
			body.Run.Stop, body.Run.StopToken = body.Action+"/stop", p.forms.token(r, "stop", name)
			if at.Running {
				what.Every, what.Body = refresh, body
				return what, nil
			}
		}
	}
	of, err := p.datasetNamed(ctx, name)
	if err != nil {
		return shown{}, err
	}
	for _, entry := range of.Staging {
		body.Entries = append(body.Entries, entryChoice{entry, slices.Contains(chosen, entry)})
	}
	if len(chosen) > 0 && !r.URL.Query().Has("part") { // the script loads parts again and again
		if err := p.dryRun(ctx, &body, chosen); err != nil {
			return shown{}, err
		}
	}
	what.Body = body
	return what, nil
}

// datasetNamed returns a dataset that the viewer may read.
func (p *pages) datasetNamed(ctx context.Context, name string) (client.Dataset, error) {
	all, err := p.Read.Datasets(ctx)
	if err != nil {
		return client.Dataset{}, err
	}
	var names []string
	for _, one := range all {
		if one.Name == name {
			return one, nil
		}
		names = append(names, one.Name)
	}
	return client.Dataset{}, dataset.Unknown(name, names)
}

// dryRun adds what promoting entries would do, and the ways to do it, or why they cannot be promoted. It returns an error if the viewer may promote
// nothing.
func (p *pages) dryRun(ctx context.Context, body *promotionBody, chosen []string) error {
	body.Chosen = chosen
	request := decode.PromoteCommand{Dataset: body.Name, Entries: chosen, DryRun: true}
	var out changes.Promoted
	err := p.Change.Change(ctx, "promote", request, &out, unseen)
	if fault.KindOf(err) == fault.Conflict { // there may be an earlier one of other snapshots
		request.Earlier = decode.RestartPromotion
		if other := p.Change.Change(ctx, "promote", request, &out, unseen); other == nil {
			body.Unequal = messageOf(err)
			err = nil
		}
	}
	switch kind := fault.KindOf(err); {
	case err == nil:
	case kind == fault.Forbidden || kind == fault.Unauthenticated:
		return err
	default:
		body.Failure, body.Remedy = failureOf(err).Message, failureOf(err).Remedy
		return nil
	}
	body.Result = resultOf(out)
	body.Command = cmdline.Join(append([]string{"penstock", "promote", body.Name}, chosen...)...) + p.Source
	body.Back = cmdline.Join("penstock", "demote", out.Table, firstColumn(out)) + p.Source
	body.Job = jobManifest(body.Name, chosen, p.Version)
	if p.Promotions == nil {
		return nil
	}
	body.Starts, body.Memory = true, fault.Size(p.Promotions.Memory())
	if body.Spark, err = p.Promotions.SparkSQL(ctx, body.Name, chosen); err != nil {
		body.SparkFailure = failureOf(err).Message
	}
	return nil
}

// unseen discards messages of progress.
func unseen(progress.Message) {}

func firstColumn(of changes.Promoted) string {
	if len(of.Columns) == 0 {
		return ""
	}
	return of.Columns[0].Name
}

// resultOf returns a result as a page shows it.
func resultOf(of changes.Promoted) *promotionResult {
	out := &promotionResult{
		Table: of.Table, TableLink: "/tables/" + pathOf(of.Table), Existed: of.Existed, Done: of.Existed && of.Files == 0,
		DemoteLink: "/demote/" + pathOf(of.Table) + "?column=" + url.QueryEscape(firstColumn(of)),
	}
	for _, c := range of.Columns {
		out.Columns = append(out.Columns, promotedColumn{c.Name, c.Entry, c.Type, c.Old})
	}
	out.Facts = factsOf(of.PromotionResult)
	for _, r := range of.Readers {
		if r.Broken() {
			out.Readers = append(out.Readers, r.Dataset)
		}
	}
	return out
}

// factsOf returns the sizes of a promotion.
func factsOf(r promote.PromotionResult) []fact {
	out := []fact{
		{"Files with the columns", svg.Count(int64(r.Skipped)) + " of " + svg.Count(int64(r.Skipped+r.Files))},
		{"Rows to write", svg.Count(r.Rows)},
		{"Reads", fault.Size(r.BytesCopied)},
		{"Writes", fault.Size(r.BytesWritten)},
	}
	e := r.Estimate
	if e == nil {
		out[0] = fact{"Files written", svg.Count(int64(r.Files)) + ", and " + svg.Count(int64(r.Skipped)) + " had the columns"}
		out[1].Name, out[2].Name, out[3].Name = "Rows written", "Read", "Written"
		return append(out, fact{"Rows compared with the join", svg.Count(r.Compared)})
	}
	pays := "never: the columns are no smaller"
	if e.Epochs > 0 {
		pays = fault.Count(e.Epochs, "epoch")
	}
	return append(
		out, fact{"Time", duration(int64(1000 * e.Seconds))}, fact{"Read per epoch now", fault.Size(e.StagingBytes)},
		fact{"Read per epoch then", fault.Size(e.ColumnBytes)}, fact{"Pays after", pays},
	)
}

// runOfPromotion returns a promotion that was started as a page shows it.
func runOfPromotion(at children.State) *promotionRun {
	out := &promotionRun{commandRun: runOf("promotion", at)}
	files := "–"
	if n := at.Progress; n.OfFiles > 0 {
		files = svg.Count(n.Files) + " of " + svg.Count(n.OfFiles) + ", " + strconv.FormatInt(100*min(n.Files, n.OfFiles)/n.OfFiles, 10) + " %"
	}
	out.Facts = append(out.Facts, fact{"Files done", files}, fact{"Rows written", svg.Count(at.Progress.RowsWritten)}, out.step)
	var result changes.Promoted
	if out.succeeded(at) && json.Unmarshal(at.Result, &result) == nil {
		out.Result = resultOf(result)
	}
	return out
}

// promote starts a promotion, or continues one.
func (p *pages) promote(_ context.Context, name string, form url.Values) (string, error) {
	entries := form["entry"]
	if len(entries) == 0 {
		return "", fault.InvalidField("entry", "no entry is chosen")
	}
	earlier := decode.EarlierPromotion(form.Get("earlier"))
	if earlier != "" && earlier != decode.ContinuePromotion && earlier != decode.RestartPromotion {
		return "", fault.InvalidField("earlier", "%q is neither %s nor %s", earlier, decode.ContinuePromotion, decode.RestartPromotion)
	}
	if err := p.Promotions.Start(name, entries, earlier); err != nil {
		return "", err
	}
	return "/promotions/" + pathOf(name) + "?" + url.Values{"entry": entries}.Encode(), nil
}

// stopPromotion ends a promotion. What it has committed stays, and starting it again continues.
func (p *pages) stopPromotion(_ context.Context, name string, _ url.Values) (string, error) {
	p.Promotions.Stop(name)
	return "/promotions/" + pathOf(name), nil
}
