# Written by `cargo xtask dist homebrew`.
class Vik < Formula
  desc "Work queue of issues for coding agents"
  homepage "https://github.com/vik-sh/vik"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_linux do
    @ARCHIVES@
  end

  def install
    bin.install "bin/vik"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/vik"
    zsh_completion.install "share/zsh/site-functions/_vik"
    fish_completion.install "share/fish/vendor_completions.d/vik.fish"
    (share/"vik").install "share/vik/example"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/vik --version")
  end
end
