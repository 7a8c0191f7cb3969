package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// wideLimit is the number of rows of wide tables that are compared: 320 MB.
const wideLimit = 40_000

// hugeBatch asks for a batch of many rows with 20 list columns. The server must refuse it before it
// gathers rows, and its remedy must work.
func (r *run) hugeBatch(ctx context.Context, rows int) error {
	want, err := r.reference(ctx, r.home, query{Dataset: "wide"}, wideLimit)
	if err != nil {
		return err
	}
	return r.against(ctx, launch{home: r.home, budget: 256 * mebi}, func(ctx context.Context, s *server) error {
		c, err := dial(s.address, dialing{})
		if err != nil {
			return err
		}
		defer c.close()
		ctx, cancel := r.sure(ctx)
		defer cancel()
		got, err := read(ctx, reading{query: query{Dataset: "wide", BatchRows: rows}, limit: wideLimit, where: func() *client { return c }})
		var f *refusal
		refused := errors.As(err, &f) && isKind(err, "exhausted", "invalid") && got.batches == 0
		r.check(s, "the batch is refused", fmt.Sprint(err), "exhausted or invalid", refused)
		if !refused {
			return nil
		}
		fit := fits(f, rows)
		r.check(s, "the refusal names rows that fit", strconv.Itoa(fit), "less than "+strconv.Itoa(rows), fit > 0)
		if fit == 0 {
			return nil
		}
		got, refusals, err := fitting(ctx, c, query{Dataset: "wide", BatchRows: fit}, wideLimit, nil)
		if err != nil {
			return err
		}
		r.rows(s, fmt.Sprintf("the rows with it, %d refusals later", refusals), got, want)
		return nil
	})
}
