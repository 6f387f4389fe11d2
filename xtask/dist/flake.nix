# Written by `cargo xtask dist nix`. The program is static, so it needs no patch.
{
  description = "Vik: a work queue of issues for coding agents";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      version = "@VERSION@";
      archives = {
        @ARCHIVES@
      };
      package =
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        pkgs.stdenvNoCC.mkDerivation {
          pname = "vik";
          inherit version;
          src = pkgs.fetchurl archives.${system};
          dontBuild = true;
          installPhase = ''
            mkdir -p $out
            cp -r bin share $out/
          '';
          meta = {
            description = "Work queue of issues for coding agents";
            homepage = "https://github.com/vik-sh/vik";
            license = with pkgs.lib.licenses; [
              mit
              asl20
            ];
            mainProgram = "vik";
            platforms = builtins.attrNames archives;
          };
        };
    in
    {
      packages = builtins.mapAttrs (system: _: { default = package system; }) archives;
    };
}
