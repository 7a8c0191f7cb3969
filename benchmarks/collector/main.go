// Command collector accepts traces over OTLP and drops them, for measurements of what tracing costs a server. It prints its address,
// and ends when its standard input does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	on, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(drop))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	if _, err := fmt.Println(on.Addr()); err != nil {
		return err
	}
	return server.Serve(on)
}

// drop answers any call with an empty message, whose fields are unknown to the request's type.
func drop(_ any, stream grpc.ServerStream) error {
	for {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			if errors.Is(err, io.EOF) {
				return stream.SendMsg(&emptypb.Empty{})
			}
			return err
		}
	}
}
