package changes

import (
	"context"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/loader/stage"
)

// checkReaders checks how the datasets that the caller may read read the table after a change.
func (w *Service) checkReaders(ctx context.Context, c *call.Call, made CheckedChange) []stage.ReaderCheck {
	client, leave := w.checkingClient(c)
	defer leave()
	return w.options.Tables.CheckReaders(ctx, made, client)
}

// planReaders plans the datasets that the caller may read, and that read a table, before a change.
func (w *Service) planReaders(ctx context.Context, c *call.Call, table string) map[string]error {
	client, leave := w.checkingClient(c)
	defer leave()
	return w.options.Tables.PlanReaders(ctx, table, client)
}

// checkingClient returns the caller as the client of a check. The check reads rows as a stream does,
// so it takes a slot of a stream until leave is called, but it does not wait for one.
func (w *Service) checkingClient(c *call.Call) (client CheckingClient, leave func()) {
	client = CheckingClient{Readers: w.options.Guard.Readers(c), Peer: c.Client()}
	leave, ok := w.options.ReadSlot(client.Peer)
	client.Busy = !ok
	return client, leave
}

// checkAround plans the datasets that the caller may read, and that read the table of a change. It is
// called before the change is made. The returned function checks the datasets after the change; if
// skip is true, it returns nil.
func (w *Service) checkAround(ctx context.Context, c *call.Call, made CheckedChange, skip bool) (after func(context.Context) []stage.ReaderCheck) {
	if skip {
		return func(context.Context) []stage.ReaderCheck { return nil }
	}
	made.Before = w.planReaders(ctx, c, made.Table)
	return func(ctx context.Context) []stage.ReaderCheck { return w.checkReaders(ctx, c, made) }
}
