// Package merge combines layers of settings.
package merge

import "sort"

// Layers returns the settings of all layers; later ones take precedence. An empty value removes
// the key.
func Layers(layers ...map[string]string) map[string]string {
	if len(layers) == 0 {
		return map[string]string{}
	}
	merged := layers[0]
	for _, layer := range layers[1:] {
		for name, value := range layer {
			merged[name] = value
		}
	}
	return merged
}

// Names returns the names of settings, sorted.
func Names(settings map[string]string) []string {
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
