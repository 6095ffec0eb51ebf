// stub is a plugin of containerd's own NRI library that takes every list and does nothing.
// hack/bench compares the plugin with it. The only argument is the runtime's socket.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type plugin struct{}

func (plugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// The library refuses a plugin without a handler of events.
func (plugin) RunPodSandbox(context.Context, *api.PodSandbox) error {
	return nil
}

func main() {
	made, err := stub.New(plugin{}, stub.WithPluginName("stub"), stub.WithPluginIdx("00"), stub.WithSocketPath(os.Args[1]))
	if err == nil {
		err = made.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
