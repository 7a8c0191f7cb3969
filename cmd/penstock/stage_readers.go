package main

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/stage"
)

// readersText describes how datasets read a table after a stage, with one line for each entry. It
// returns unread if there are no datasets, and "" if they were not checked.
func readersText(readers []stage.ReaderCheck, unread string) string {
	if readers == nil {
		return ""
	}
	if len(readers) == 0 {
		return unread + "\n"
	}
	var b strings.Builder
	for _, r := range readers {
		fmt.Fprintf(&b, "dataset %s: %s\n", r.Dataset, readerState(r))
		if r.Warning != "" {
			fmt.Fprintf(&b, "  warning: %s\n", r.Warning)
		}
	}
	return b.String()
}

// readerState describes how an entry of a dataset reads a table.
func readerState(r stage.ReaderCheck) string {
	entry := ""
	if r.Entry != "" {
		entry = " (" + r.Entry + ")"
	}
	switch {
	case r.Failure != nil && r.Failure.Before:
		return "cannot be read, and could not be read before the stage" + entry + ": " + r.Failure.Message
	case r.Failure != nil:
		return "can no longer be read" + entry + ": " + r.Failure.Message
	case r.NotMeasured != "":
		return r.NotMeasured + entry
	case r.Entry == "":
		return "can be read; the table is its training table"
	case r.Rows == 1:
		return fmt.Sprintf("%d of 1 sampled row matches", r.Matched) + entry
	}
	return fmt.Sprintf("%.4g%% of %d sampled rows match", 100*float64(r.Matched)/float64(r.Rows), r.Rows) + entry
}

// brokenError is the error of a stage whose rows are committed, and after which a dataset can no
// longer be read.
type brokenError struct{ error }

// Unwrap returns the error.
func (e brokenError) Unwrap() error { return e.error }

// brokenReaders returns a brokenError if the stage has made a dataset unreadable.
func (p terminal) brokenReaders(call stageCall, out stage.WriteResult) error {
	for _, r := range out.Readers {
		if !r.Broken() {
			continue
		}
		e := fault.New(fault.Invalid, "the rows are committed in snapshot %d of table %s, and dataset %s can no longer be read: %s", out.Snapshot, call.Table, r.Dataset, r.Failure.Message)
		remedy := "take the rows back: " + undoLine(madeBy(call.TableWrite, out)) + call.source
		if r.Failure.Remedy != "" {
			remedy = r.Failure.Remedy + "; or " + remedy
		}
		return brokenError{e.WithRemedy("%s", remedy)}
	}
	return nil
}
