// SPDX-License-Identifier: BSD-2-Clause

// Package dns replaces the list of DNS providers in the build of Traefik. See programs.py.
package dns

import (
	"fmt"

	"github.com/go-acme/lego/v4/challenge"
)

// NewDNSChallengeProviderByName knows no provider.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("this build of Traefik has no DNS provider %q", name)
}
