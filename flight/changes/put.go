package changes

import (
	"context"
	"log/slog"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/stage"
)

// Bounds of calls that write rows.
const (
	// putTimeout is how long a client may take for a message with rows.
	putTimeout = 10 * time.Minute
)

// putBegins is the message after which rows are read: the table exists or can be created, and has
// no change with the token. Whether it has the rows is known when all of them have come.
type putBegins struct {
	Token      string `json:"token"`
	MaxMessage int64  `json:"max_message"` // bytes of a message with rows
}

// putResult is a message to a client that writes rows. Exactly one field is set.
type putResult struct {
	Begin    *putBegins         `json:"begin,omitempty"`
	Progress *progress.Message  `json:"progress,omitempty"`
	Result   *stage.WriteResult `json:"result,omitempty"`
}

// Put answers a DoPut call. The rows become one change of a table once the client has confirmed
// that it sent all of them.
func (w *Service) Put(c *call.Call, stream grpc.ServerStream) error {
	if w.options.Tables == nil {
		return fault.New(fault.Invalid, "DoPut is not supported by this version").WithRemedy("write staging tables with a server that has catalogs of its own")
	}
	first := &rowsin.First{}
	if err := stream.RecvMsg(first); err != nil {
		return err
	}
	defer first.Close()
	command, err := stageCommand(first)
	if err != nil {
		return err
	}
	return w.put(c, stream, first, command)
}

// stageCommand returns the command in a client's first message.
func stageCommand(first *rowsin.First) (dataset.TableWrite, error) {
	if first.Descriptor.GetType() != arrowflight.DescriptorCMD {
		return dataset.TableWrite{}, fault.InvalidField("descriptor", "it is not a command").
			WithRemedy(`give a command such as {"stage": {"table": "features.history"}}`)
	}
	return decode.Stage(first.Descriptor.GetCmd())
}

// put checks the caller's rights, waits for a slot, writes the rows of a call to a table and sends
// the result.
func (w *Service) put(c *call.Call, stream grpc.ServerStream, first *rowsin.First, command dataset.TableWrite) error {
	command = command.Named(commit.NewToken(w.options.Clock(), ""))
	ctx, leave := w.options.Enter(stream.Context())
	defer leave()
	if _, err := w.options.Guard.PermitStage(c, command); err != nil {
		return err
	}
	if err := w.options.Tables.Writable(command.Table); err != nil {
		return fault.Op(err, "stage")
	}
	if err := first.Charge(w.options.Budget); err != nil {
		return err
	}
	slot, err := w.slot(ctx, c, first.Size())
	if err != nil {
		return putEnded(ctx, err, command.Token)
	}
	defer slot.leave()
	from, err := w.options.Guard.PermitStage(c, command)
	if err != nil { // the policy may have changed while the call waited
		return err
	}
	ctx, entered := w.options.Budget.Enter(ctx, c.Client())
	defer entered.Release()
	c.Note.Change(audit.Stage, command.Token, command.Table)
	var before map[string]error
	if command.ChecksReaders() {
		before = w.planReaders(ctx, c, command.Table)
	}
	out, err := w.stage(ctx, stream, first, permittedStage{command, c, from}, slot)
	slot.leave() // the result may wait for the client
	if err != nil {
		return fault.Op(putEnded(ctx, err, command.Token), "stage")
	}
	c.Note.Changed(out.Snapshot)
	if out.Snapshot != 0 && command.ChecksReaders() {
		if out.Existed { // the change was made before the datasets were planned
			before = nil
		}
		out.Readers = w.checkReaders(ctx, c, CheckedChange{
			Table: command.Table, Branch: command.Branch, Snapshot: out.Snapshot, Parent: out.Parent, Staged: true, BrokenRules: out.BrokenRules, Before: before,
		})
	}
	return sendPut(stream, putResult{Result: &out})
}

// permittedStage is a write that the caller may make.
type permittedStage struct {
	dataset.TableWrite
	call *call.Call
	from access.WriteSources
}

// stage writes the rows of a call.
func (w *Service) stage(ctx context.Context, stream grpc.ServerStream, first *rowsin.First, command permittedStage, slot *putSlot) (stage.WriteResult, error) {
	rows, err := rowsin.Open(ctx, stream, first, rowsin.Options{Limit: w.putLimit, Pace: slot, Budget: w.options.Budget})
	if err != nil {
		return stage.WriteResult{}, err
	}
	defer rows.Close()
	send := func(m putResult) error {
		return slot.send(ctx, rows.Counts().Bytes, func() error { return sendPut(stream, m) })
	}
	to := progress.NewSender(w.options.Clock, func(m progress.Message) error { return send(putResult{Progress: &m}) })
	to.Wanted(command.Progress)
	log := w.options.Log.With(slog.String("table", command.Table), slog.String("token", command.Token))
	log.InfoContext(ctx, "stage begins", "client", command.call.Client())
	reader := rows.Reader(ctx, func() error {
		return send(putResult{Begin: &putBegins{Token: command.Token, MaxMessage: w.putLimit}})
	})
	defer reader.Release()
	out, err := w.options.Tables.Stage(ctx, command.TableWrite, command.from, to.Writing, reader)
	to.Flush()
	command.call.Note.Wrote(rows.Counts())
	attributes := []any{"rows", out.Rows, "snapshot", out.Snapshot, "files", out.Files, "received", rows.Counts().Bytes}
	if err != nil {
		err = rows.Cause(err)
		attributes = append(attributes, "error", err)
	}
	log.InfoContext(ctx, "stage ends", attributes...)
	return out, err
}

// sendPut sends a message to a client that writes rows.
func sendPut(stream grpc.ServerStream, m putResult) error {
	return stream.SendMsg(&arrowflight.PutResult{AppMetadata: jsontext.Of(m)})
}

// putEnded returns the error of a call that the server or the client ended, instead of the error
// that resulted from it. An error that leaves it uncertain whether the change was made is returned
// unchanged. token is the token of the change, or "" if it has none.
func putEnded(ctx context.Context, err error, token string) error {
	if err == nil || commit.Uncertain(err) {
		return err
	}
	err = failure.Cause(ctx, err)
	if failure.IsByServer(err) {
		e := *fault.As(err)
		e.Remedy = "repeat the call, here after the restart or on another server"
		if token != "" {
			e.Remedy = "repeat the call with token " + token + ", here after the restart or on another server"
		}
		return failure.ByServer(&e)
	}
	return err
}
