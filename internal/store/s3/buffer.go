package s3

import "context"

// grow replaces the buffer that is being filled by a larger one, of at most the size of its part.
// While it copies the content, it holds both buffers.
func (u *upload) grow(ctx context.Context, n int) error {
	old := u.filling
	larger, err := u.allocate(ctx, min(partSize(u.sent+1), max(2*cap(old.content), len(old.content)+n)))
	if err != nil {
		return err
	}
	larger.content = append(larger.content, old.content...)
	u.filling = larger
	old.held.Release()
	return nil
}

// allocate reserves the memory of a buffer and returns the buffer.
func (u *upload) allocate(ctx context.Context, size int) (*buffer, error) {
	held, err := u.reserve(ctx, int64(size))
	if err != nil {
		return nil, err
	}
	return &buffer{content: make([]byte, 0, size), held: held}, nil
}

// take begins a part, of which at least n bytes will follow, in a buffer that is idle, in a new
// buffer, or in the next buffer whose part has been sent.
func (u *upload) take(ctx context.Context, n int) error {
	size := partSize(u.sent + 1)
	if u.sent == 0 {
		size = min(size, max(firstBuffer, n))
	}
	for u.filling == nil {
		if err := u.failure(); err != nil {
			return err
		}
		if len(u.idle) == 0 && u.buffers < maxBuffers {
			if more, err := u.takeNew(ctx, size); !more {
				return err
			}
		}
		select {
		case b := <-u.idle:
			if cap(b.content) >= size {
				u.filling = b
				break
			}
			u.drop(b) // later parts are larger
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-u.life.Done():
			return u.failure()
		}
	}
	return nil
}

// takeNew begins a part in a new buffer. If there is no memory, or a part in flight ends first, it
// returns true if the upload has other buffers: then the part can begin in one of these, since a
// single buffer is enough for an upload.
func (u *upload) takeNew(ctx context.Context, size int) (again bool, err error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	u.waitWith(cancel)
	defer u.waitWith(nil)
	b, err := u.allocate(waiting, size)
	switch {
	case err == nil:
		u.filling = b
		u.buffers++
		return false, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	default:
		return u.buffers > 0, err
	}
}

// waitWith sets the function that ends the wait for memory. If a buffer is idle, it calls this
// function at once.
func (u *upload) waitWith(cancel context.CancelFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hurry = cancel
	if cancel != nil && len(u.idle) > 0 {
		cancel()
	}
}

// landed makes a buffer idle after its part was sent or has failed.
func (u *upload) landed(b *buffer) {
	b.content = b.content[:0]
	u.idle <- b
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hurry != nil {
		u.hurry()
	}
}

// drain waits until no part is in flight, and releases the memory of all parts.
func (u *upload) drain(ctx context.Context) error {
	for u.buffers > 0 {
		select {
		case b := <-u.idle:
			u.drop(b)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return u.failure()
}

// free releases the memory of the upload. No part may be in flight.
func (u *upload) free() {
	if u.filling != nil {
		u.drop(u.filling)
		u.filling = nil
	}
	for len(u.idle) > 0 {
		u.drop(<-u.idle)
	}
}

func (u *upload) drop(b *buffer) {
	u.buffers--
	b.content = nil
	b.held.Release()
}
