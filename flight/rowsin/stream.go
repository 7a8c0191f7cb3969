package rowsin

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/penstock/penstock/internal/fault"
)

// The format of Arrow's IPC streams and files. Before each message, there is a prefix that consists
// of a mark and the size of the message's header. A size of 0 ends the stream. A file contains a
// stream between the file's magic and its footer.
const (
	streamMark     = 0xFFFFFFFF
	prefixBytes    = 8
	fileMagic      = "ARROW1"
	slotBodyLength = 3 // of Message
	slotBatches    = 3 // of Footer
	blockBytes     = 24
	maxFooter      = 8 << 20
)

// ipcStream reads the messages of an IPC stream or file.
type ipcStream struct {
	in     io.Reader
	isFile bool
}

// OpenStream returns the rows of an Arrow IPC stream or an IPC file. It reads a file from beginning
// to end, as a stream. Nothing in the input is trusted: OpenStream checks the messages in the same
// way as Open checks the messages of a call. The rows are complete only if the stream has its end
// mark. The rows of a file must also have as many batches as its footer lists. o.Pace is not used.
// The caller closes the rows, and remains the owner of in.
func OpenStream(ctx context.Context, in io.Reader, o Options) (*Rows, error) {
	p := &Rows{limit: o.Limit, sizes: map[int64]int64{}}
	var err error
	if p.held, err = o.Budget.Reserve("rows of an Arrow stream", 0); err != nil {
		return nil, err
	}
	if p.kept, err = o.Budget.Reserve("dictionaries of an Arrow stream", 0); err != nil {
		p.held.Release()
		return nil, err
	}
	s := &ipcStream{in: in}
	p.next = func(ctx context.Context) (*message, error) { return s.message(ctx, p) }
	if p.first, err = s.begin(ctx, p); err == nil {
		err = p.begin(ctx)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// begin reads the first message.
func (s *ipcStream) begin(ctx context.Context, p *Rows) (*message, error) {
	start := make([]byte, prefixBytes)
	if err := s.fill(start); err != nil {
		return nil, err
	}
	if string(start[:len(fileMagic)]) == fileMagic {
		s.isFile = true
		if err := s.fill(start); err != nil {
			return nil, err
		}
	}
	m, err := s.after(ctx, p, start)
	if errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "the Arrow stream has no schema").WithRemedy("write the rows with an Arrow library")
	}
	return m, err
}

// message reads the next message, or returns io.EOF after the last one.
func (s *ipcStream) message(ctx context.Context, p *Rows) (*message, error) {
	if p.completed {
		return nil, io.EOF
	}
	prefix := make([]byte, prefixBytes)
	if err := s.fill(prefix); err != nil {
		return nil, err
	}
	return s.after(ctx, p, prefix)
}

// after reads the message that follows a prefix, or returns the result of end if the prefix ends
// the stream.
func (s *ipcStream) after(ctx context.Context, p *Rows, prefix []byte) (*message, error) {
	size := int64(binary.LittleEndian.Uint32(prefix[4:]))
	switch {
	case binary.LittleEndian.Uint32(prefix) != streamMark && s.isFile && p.reader == nil:
		return nil, fault.New(fault.Invalid, "the Arrow file has its schema in its footer alone, as Polars writes files, which this version does not read").
			WithRemedy("write the rows as an Arrow stream, in Polars with write_ipc_stream, or as Parquet")
	case binary.LittleEndian.Uint32(prefix) != streamMark:
		return nil, fault.New(fault.Invalid, "the bytes are not an Arrow IPC stream or file of Arrow 0.15 or later").WithRemedy("write the rows with an Arrow library")
	case size == 0:
		return nil, s.end(ctx, p)
	case size > p.limit:
		return nil, tooLargeInFile(p.limit)
	}
	if err := p.grow(ctx, size); err != nil {
		return nil, err
	}
	m := &message{header: make([]byte, size)}
	if err := s.fill(m.header); err != nil {
		return nil, err
	}
	r := newFlatReader(m.header)
	body := int64(r.root().value(slotBodyLength, 8)) //nolint:gosec // two's complement
	if err := r.err(); err != nil {
		return nil, err
	}
	if body < 0 || body > p.limit {
		return nil, tooLargeInFile(p.limit)
	}
	if err := p.grow(ctx, size+body); err != nil {
		return nil, err
	}
	m.body = make([]byte, body)
	return m, s.fill(m.body)
}

// grow raises the reservation for the message that is being read to the given total of bytes.
func (p *Rows) grow(ctx context.Context, bytes int64) error {
	if more := bytes - p.held.Held(); more > 0 {
		return p.held.GrowWait(ctx, more)
	}
	return nil
}

// tooLargeInFile is the error for a message beyond the limit.
func tooLargeInFile(limit int64) error {
	return fault.New(fault.Exhausted, "a batch has more than %d bytes", limit).WithRemedy("write smaller batches, or raise memory")
}

// fill reads bytes until p is full.
func (s *ipcStream) fill(p []byte) error {
	_, err := io.ReadFull(s.in, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.Invalid, "the rows end without the mark that ends an Arrow stream: they may not be complete").
			WithRemedy("close the writer of the rows, and write them again")
	}
	return unread(err)
}

// unread converts an error of reading the input to an error of kind Unavailable. It returns errors
// of this server, and nil, unchanged.
func unread(err error) error {
	if e := (*fault.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	return fault.New(fault.Unavailable, "read the rows: %w", err).WithRemedy("repeat the call")
}

// end checks the bytes after the end mark, and returns io.EOF if the rows are complete.
func (s *ipcStream) end(ctx context.Context, p *Rows) error {
	most := int64(1) // reading one byte is enough to find bytes after the end mark, which are refused
	if s.isFile {
		most = min(maxFooter, p.limit)
	}
	const copies = 2 // while a buffer grows, its old and its new memory exist at the same time
	if err := p.grow(ctx, copies*most); err != nil {
		return err
	}
	rest, err := io.ReadAll(io.LimitReader(s.in, most))
	if err != nil {
		return unread(err)
	}
	switch {
	case !s.isFile && len(rest) > 0:
		return fault.New(fault.Invalid, "bytes come after the end of the Arrow stream").WithRemedy("stage each stream by a call of its own")
	case s.isFile:
		if batches, ok := footerBatches(rest); !ok || batches != p.counts.Batches {
			return fault.New(fault.Invalid, "the footer of the Arrow file does not list the %d batches that the file has", p.counts.Batches).
				WithRemedy("write the file again")
		}
	}
	p.declared, p.completed = p.counts.Rows, true
	return io.EOF
}

// footerBatches returns the number of batches that the footer at the end of a file lists, and
// whether the footer is valid.
func footerBatches(rest []byte) (int64, bool) {
	const tail = 4 + len(fileMagic)
	size := len(rest) - tail
	if size < 0 || string(rest[size+4:]) != fileMagic || int(binary.LittleEndian.Uint32(rest[size:])) != size {
		return 0, false
	}
	r := newFlatReader(rest[:size])
	_, n := r.root().list(slotBatches, blockBytes)
	return int64(n), r.err() == nil
}
