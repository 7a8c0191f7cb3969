package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/receive"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/segment"
	"github.com/penstock/penstock/internal/telemetry"
)

const (
	// The budget of a receiver is the machine's memory divided by receiverShare, but at least
	// minReceiver bytes. It is minReceiver if the machine's memory is not known.
	receiverShare, minReceiver = 8, 1 << 30
	// receiverGarbage is the value of GOGC. Live memory is a few messages, so that the collector would
	// run for every few batches with a small value: it took 40 % of the receiver's CPU time.
	receiverGarbage = 800
	// minReceiverHeap is the smallest limit of Go's heap. The limit follows the memory of rings every
	// heapPoll.
	minReceiverHeap, heapPoll = 128 << 20, time.Second
	// maxReceiverInput is the maximum size of a receiver's input: certificates are most of it.
	maxReceiverInput = 16 << 20
)

// receiverInput is the JSON object that a receiver reads from standard input.
type receiverInput struct {
	Servers []string `json:"servers"`   // the locations that the receiver may connect to
	Roots   string   `json:"tls_roots"` // certificates and a key in PEM form; "": none
	Chain   string   `json:"tls_chain"`
	Key     string   `json:"tls_key"`
}

func receiveCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "receive --private FOLDER", Short: "Receive streams for the trainers of this user on this host", Args: cmdline.NoArguments, Hidden: true,
		Long: "Receive streams of other servers for the trainers of this user on this host, on sockets in a\n" +
			"folder of mode 0700. The Python package starts this command, and writes to its standard input\n" +
			"which servers it may connect to. It ends with the processes that use it.",
	}
	folder := cmdline.Text(c, "private", "FOLDER", "the folder of the sockets, which has the file of owners")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if runtime.GOOS != "linux" {
			return fault.New(fault.Invalid, "receive: memory can be passed to other processes only on Linux").WithRemedy("read from the server without a receiver")
		}
		return p.receive(c.Context(), *folder)
	}
	return c
}

// receive receives streams until the owners of a folder are gone.
func (p process) receive(ctx context.Context, folder string) error {
	owner, err := newPrivateServer(folder)
	if err != nil {
		return err
	}
	if owner.owners == nil {
		return fault.New(fault.Invalid, "private %s: it has no file of owners", folder).WithRemedy("let the Python package start the receiver")
	}
	defer owner.clean()
	upstreams, err := p.upstreams()
	if err != nil {
		return err
	}
	signals, _, restore := serverSignals()
	defer restore()
	log := telemetry.NewLogger(p.stderr, slog.LevelInfo, "text")
	memory := max(machineMemory()/receiverShare, minReceiver)
	all := budget.New(memory)
	lender := segment.NewLender(all, memory)
	defer lender.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.boundReceiver(ctx, log, memory, lender)
	sessions := local.New(lender, clock.Now, log)
	defer sessions.Close()
	calls, packets, err := owner.listen(ctx)
	if err != nil {
		return err
	}
	server := receive.New(receive.Options{Upstreams: upstreams, Sessions: sessions, Budget: all, Cores: cores.New(runtime.GOMAXPROCS(0)), Logger: log}).Server()
	var group errgroup.Group
	group.Go(func() error { return sessions.Serve(packets) })
	group.Go(func() error { return server.Serve(calls) })
	go owner.watch(p.stdin)
	log.Info("penstock receives", "version", version(), "servers", len(upstreams), "memory", memory)
	if _, err := fmt.Fprintln(p.stdout, calls.Addr()); err != nil && !isBrokenPipe(err) {
		return fault.New(fault.Unavailable, "write the address to standard output: %w", err)
	}
	select {
	case <-ctx.Done():
	case <-signals:
	case <-owner.ended():
	}
	server.Stop()
	return errors.Join(packets.Close(), group.Wait())
}

// boundReceiver bounds the heap of a receiver until the context ends. Go's limit does not include rings.
func (p process) boundReceiver(ctx context.Context, log *slog.Logger, memory int64, rings *segment.Lender) {
	engine.BoundHeap(log, func(name string) string { return p.orEnv("", name) }, memory, machineMemory())
	if p.orEnv("", "GOGC") == "" {
		debug.SetGCPercent(receiverGarbage)
	}
	if p.orEnv("", "GOMEMLIMIT") != "" {
		return
	}
	go func() {
		poll := time.NewTicker(heapPoll)
		defer poll.Stop()
		for before := int64(0); ; {
			of := rings.Stats()
			if limit := heapBeside(memory, of.Lent+of.Kept+of.Free); limit != before {
				debug.SetMemoryLimit(limit)
				before = limit
			}
			select {
			case <-poll.C:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// heapBeside returns the limit of Go's heap for a budget and the bytes of rings. Live memory is less than
// that: the same budget contains it, and most of it is only allocated for the largest messages.
func heapBeside(memory, rings int64) int64 { return max(memory-rings, minReceiverHeap) }

// listen binds the sockets of the receiver, for calls and for sessions. Their mode is 0600, and only
// this user can enter their folder.
func (s *privateServer) listen(ctx context.Context) (calls, packets net.Listener, err error) {
	if packets, err = socket.Listen(ctx, socket.Packets, filepath.Join(s.folder, "local.sock")); err != nil {
		return nil, nil, err
	}
	if calls, err = socket.Listen(ctx, socket.Streams, filepath.Join(s.folder, "server.sock")); err != nil {
		return nil, nil, errors.Join(err, packets.Close())
	}
	return calls, packets, nil
}

// upstreams reads which servers a receiver may connect to from standard input.
func (p process) upstreams() (map[string]receive.Upstream, error) {
	text, err := io.ReadAll(io.LimitReader(p.stdin, maxReceiverInput))
	var input receiverInput
	if err == nil {
		err = json.Unmarshal(text, &input)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "read standard input: %w", err).WithRemedy("let the Python package start the receiver")
	}
	out := map[string]receive.Upstream{}
	for _, location := range input.Servers {
		var up receive.Upstream
		up.Target, up.Credentials, err = client.Upstream(location, client.PEM{CA: []byte(input.Roots), Cert: []byte(input.Chain), Key: []byte(input.Key)})
		if err != nil {
			return nil, err
		}
		out[location] = up
	}
	return out, nil
}
