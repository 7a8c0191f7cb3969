package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stage"
)

// Stages runs penstock stage in processes of its own, with the rights of this program's config file and user.
type Stages interface {
	// Start starts a stage. It returns Conflict if one of the table runs.
	Start(Stage) error
	// State returns the last stage of a table, and how far it is.
	State(table string) (last Stage, at children.State, found bool)
	Stop(table string) bool
	// Memory is the memory budget of a stage, in bytes.
	Memory() int64
}

// Stage is a call of penstock stage. It has no token: if it is repeated with the same rows, it writes nothing.
type Stage struct {
	Table   string
	Branch  string // "": main, of a new table
	Replace bool   // the partitions that have new rows
	// The rows are those of files on this machine or on S3, or those that DuckDB computes.
	Files []string
	SQL   string
	// The others define the layout of a new table, as the flags of these names do: all of them are texts of the user. Either Like is given, or Buckets.
	Key, Like, Buckets, Sort string
	Partition                []string
}

// maxStaged is the maximum number of files and folders that a form names.
const maxStaged = 100

// stageBody is the page on which rows are staged.
type stageBody struct {
	confirmation
	New    bool // there is no such table yet
	Run    *stageRun
	Fields Stage // the values that the form begins with
	Memory string
}

// stageRun is a stage that was started by a page.
type stageRun struct {
	commandRun
	Result *stageResult // nil: it runs, or has failed
}

// stageResult is a result of stage.
type stageResult struct {
	Facts    []fact
	Link     string   // the page that shows the rows
	Undo     string   // the page that takes it back; "": nothing was written
	Matches  []string // of the datasets that read the table
	Warnings []string
}

// staging is the page on which rows are staged.
func (p *pages) staging(ctx context.Context, r *http.Request) (shown, error) {
	name, query := r.PathValue("name"), r.URL.Query()
	body := stageBody{confirmation: p.confirmation(r, "stage", name), Fields: layoutOf(query)}
	body.Fields.Branch = query.Get("branch")
	body.Memory = fault.Size(p.Stages.Memory())
	what := shown{Title: "Stage to " + name, Section: "backfills"}
	if last, at, found := p.Stages.State(name); found {
		body.Run = runOfStage(at, last)
		body.Run.Stop, body.Run.StopToken = body.Action+"/stop", p.forms.token(r, "stop-stage", name)
		if at.Running {
			what.Every, what.Body = refresh, body
			return what, nil
		}
		if at.Failure != "" { // so that the form repeats it
			body.Fields = last
		}
	}
	var err error
	body.New, err = p.isNew(ctx, name)
	what.Body = body
	return what, err
}

// layoutOf returns the layout of a new table in the fields of a form or an address.
func layoutOf(form url.Values) Stage {
	return Stage{Key: form.Get("key"), Like: form.Get("like"), Buckets: form.Get("buckets"), Sort: form.Get("sort"), Partition: linesOf(form["partition"])}
}

// linesOf returns the lines of texts without spaces around them, and without those that are empty.
func linesOf(texts []string) (out []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
	return out
}

// isNew reports whether there is no table of a name.
func (p *pages) isNew(ctx context.Context, table string) (bool, error) {
	_, err := p.tableNamed(ctx, table)
	if fault.KindOf(err) == fault.NotFound {
		return true, nil
	}
	return false, err
}

// runOfStage returns a stage that was started as a page shows it.
func runOfStage(at children.State, of Stage) *stageRun {
	out := &stageRun{commandRun: runOf("stage", at)}
	out.Facts = append(out.Facts, fact{"Branch", cmp.Or(of.Branch, commit.Main)}, fact{"Rows of", cmp.Or(strings.Join(of.Files, " "), "a SELECT")})
	if at.Running {
		read := svg.Count(at.Progress.RowsRead)
		if at.Progress.OfRowsRead > 0 {
			read += " of " + svg.Count(at.Progress.OfRowsRead)
		}
		out.Facts = append(out.Facts, fact{"Rows read", read}, fact{"Rows written", svg.Count(at.Progress.RowsWritten)}, out.step)
	}
	var result stage.WriteResult
	if out.succeeded(at) && json.Unmarshal(at.Result, &result) == nil {
		out.Result = staged(result, of)
	}
	return out
}

// staged returns a result as a page shows it.
func staged(of stage.WriteResult, request Stage) *stageResult {
	table, branch := request.Table, request.Branch
	out := &stageResult{
		Link: "/tables/" + pathOf(table),
		Facts: []fact{
			{"Rows", svg.Count(of.Rows)},
			{"Files", svg.Count(int64(of.Files))},
			{"Size", fault.Size(of.Bytes)},
			{"Partitions", svg.Count(int64(of.Partitions))},
			{"Snapshot", snapshotText(of.Snapshot)},
			{"Token", of.Token},
		},
	}
	if branch != "" {
		out.Link = "/backfills/" + pathOf(table) + "?" + url.Values{"branch": {branch}}.Encode()
	}
	if of.Existed {
		out.Warnings = append(out.Warnings, "The table has these rows from an earlier stage: nothing was written.")
	} else if of.Snapshot != 0 {
		out.Undo = "/undo/" + pathOf(table)
		if branch != "" {
			out.Undo += "?" + url.Values{"branch": {branch}}.Encode()
		}
	}
	for _, r := range of.Readers {
		if r.Rows > 0 {
			out.Matches = append(out.Matches, "Dataset "+r.Dataset+", entry "+r.Entry+": "+svg.Percent(float64(r.Matched)/float64(r.Rows))+" of "+svg.Count(r.Rows)+" sampled training rows match")
		}
		if r.Broken() {
			out.Warnings = append(out.Warnings, "Dataset "+r.Dataset+" can no longer be read: "+r.Failure.Message)
		} else if r.Warning != "" {
			out.Warnings = append(out.Warnings, "Dataset "+r.Dataset+": "+r.Warning)
		}
	}
	return out
}

// stage starts a stage. Rows for a table that exists go to a branch.
func (p *pages) stage(ctx context.Context, name string, form url.Values) (string, error) {
	one := Stage{
		Table: name, Branch: form.Get("branch"), SQL: strings.TrimSpace(form.Get("sql")), Replace: form.Get("mode") == "replace", Files: linesOf(form["files"]),
	}
	switch {
	case len(one.Files) == 0 && one.SQL == "":
		return "", fault.InvalidField("files", "no rows: name files, or write a SELECT")
	case len(one.Files) > 0 && one.SQL != "":
		return "", fault.InvalidField("files", "files and a SELECT cannot be combined").WithRemedy("read the files in the SELECT")
	case strings.HasPrefix(one.SQL, "@"), strings.HasPrefix(one.SQL, "-"):
		return "", fault.InvalidField("sql", "%.20q is not a SELECT", one.SQL).WithRemedy("write the statement itself")
	case len(one.Files) > maxStaged:
		return "", fault.InvalidField("files", "%d files, and a form takes %d", len(one.Files), maxStaged).WithRemedy("name their folder, or a pattern such as day-*.parquet")
	}
	isNew, err := p.isNew(ctx, name)
	switch {
	case err != nil:
		return "", err
	case isNew:
		with := layoutOf(form)
		with.Table, with.SQL, with.Files = one.Table, one.SQL, one.Files
		one = with
	case one.Branch == "" || one.Branch == commit.Main:
		return "", fault.InvalidField("branch", "a page stages to a branch: want the name of one, which is not %s", commit.Main).
			WithRemedy("publish the branch when you have seen its rows")
	}
	if err := p.Stages.Start(one); err != nil {
		return "", err
	}
	return "/stage/" + pathOf(name) + "?" + url.Values{"branch": {one.Branch}}.Encode(), nil
}

// stopStage ends a stage. Nothing is written then, unless it has committed.
func (p *pages) stopStage(_ context.Context, name string, form url.Values) (string, error) {
	p.Stages.Stop(name)
	return "/stage/" + pathOf(name) + "?" + url.Values{"branch": {form.Get("branch")}}.Encode(), nil
}
