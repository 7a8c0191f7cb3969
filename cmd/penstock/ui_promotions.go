package main

import (
	"bytes"
	"context"
	"os"
	"strconv"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// memoryShare is the share of the memory budget of the config file that a promotion gets by default: 1/memoryShare.
const memoryShare = 2

// promotions implements ui.Promotions with the commands of this program and a config file.
type promotions struct {
	*children.Group
	process
	config string
	memory int64
}

// newPromotions returns the promotions of a config file. memory is the value of the flag --promote-memory.
func (p process) newPromotions(file, memory string) (*promotions, error) {
	c, err := p.load(file, nil)
	if err != nil {
		return nil, err
	}
	out := &promotions{process: p, config: file, memory: c.Server.Memory / memoryShare}
	if memory != "" {
		if out.memory, err = config.ParseBytes(memory); err != nil {
			return nil, cmdline.Errorf("--promote-memory %q is not a size, such as 4GiB", memory)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "find this program: %w", err)
	}
	out.Group = children.New(program)
	return out, nil
}

// Memory implements ui.Promotions.
func (p *promotions) Memory() int64 { return p.memory }

// Start implements ui.Promotions.
func (p *promotions) Start(dataset string, entries []string, earlier decode.EarlierPromotion) error {
	args := []string{"promote", "--config", p.config, "--json", "--progress", progressJSON}
	switch earlier {
	case decode.ContinuePromotion:
		args = append(args, "--continue")
	case decode.RestartPromotion:
		args = append(args, "--restart")
	}
	args = append(append(args, "--", dataset), entries...)
	return p.Group.Start(children.Command{Name: dataset, Args: args, Env: []string{"PENSTOCK_MEMORY=" + strconv.FormatInt(p.memory, 10)}})
}

// SparkSQL implements ui.Promotions.
func (p *promotions) SparkSQL(ctx context.Context, dataset string, entries []string) (string, error) {
	var text bytes.Buffer
	printing, none := p.process, ""
	printing.stdout = &text
	err := printing.printPromotion(ctx, p.config, append([]string{dataset}, entries...), sparkPrint{&none, &none})
	return text.String(), err
}
