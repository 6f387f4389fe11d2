// Package load reads settings.
package load

import (
	"fmt"
	"strings"
)

// Parse reads lines such as "name = value". Lines that start with # are comments.
func Parse(text string) (map[string]string, error) {
	settings := map[string]string{}
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "=")
		if len(parts) < 2 {
			return nil, fmt.Errorf("line %d: expected name = value", number+1)
		}
		name := strings.TrimSpace(parts[0])
		if name == "" {
			return nil, fmt.Errorf("line %d: no name", number+1)
		}
		settings[name] = strings.TrimSpace(parts[1])
	}
	return settings, nil
}
