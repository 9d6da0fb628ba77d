//! `tessera gen`: writes the kernels of a model as texts, with a manifest of their launches.

use crate::cli::failure::Failure;
use crate::cli::kernels::{KernelArgs, Model};
use crate::cli::{Done, output};
use std::path::PathBuf;
use tessera::generate::{Entry, Generated, Manifest, Request, generate};
use tessera::tensors::write_whole;

/// Write the kernels of a model as texts, with a manifest of their launches
///
/// Writes for each kernel NAME.ptx (or .clif), NAME.tile and one manifest.json, and prints a line a kernel. Schedules are chosen for a
/// number of rows, any other number gives the same results; a kernel whose code differs between the given numbers has the
/// largest that it is for in its name.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tessera gen --all --target sm_100a --config released --out kernels\n  \
                  tessera gen linear attention --target sm_100a --rows 1,64 --out kernels")]
pub(crate) struct Args {
    #[command(flatten)]
    kernels: KernelArgs,
    /// Folder to write to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the manifest as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Done {
    let (families, files) = args.kernels.select()?;
    if let Some(file) = files.first() {
        return Err(Failure::Input(format!(
            "{} is a file; gen writes the kernels of a model, build those of a text",
            file.display()
        )));
    }
    let request = args.kernels.request(families)?;
    let model = args.kernels.model()?;
    let kernels = generate(&model.config, &model.topology, &request)?;
    let manifest = write(args, &request, &model, &kernels)?;
    if args.json {
        return output::json(&manifest);
    }
    output::text_line(&text(&manifest))
}

fn write(args: &Args, request: &Request, model: &Model, kernels: &[Generated]) -> Result<Manifest, Failure> {
    let manifest = Manifest::new(request.target, kernels, &model.config, &request.shape);
    std::fs::create_dir_all(&args.out)
        .map_err(|source| tessera::Error::Write { path: args.out.clone(), source })?;
    for (kernel, entry) in kernels.iter().zip(&manifest.kernels) {
        write_whole(&args.out.join(&entry.file), kernel.code.text.as_bytes())?;
        write_whole(&args.out.join(&entry.tile), kernel.tile.as_bytes())?;
    }
    // Last, so that a manifest never names a file that is not there yet.
    let json = serde_json::to_string_pretty(&manifest).map_err(std::io::Error::other)? + "\n";
    write_whole(&args.out.join("manifest.json"), json.as_bytes())?;
    Ok(manifest)
}

fn text(manifest: &Manifest) -> String {
    let row = |kernel: &Entry| {
        let grid: Vec<&str> = kernel.grid.iter().map(|axis| axis.expr.as_str()).collect();
        let shape: Vec<String> = kernel.shape.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let rows: Vec<String> = kernel.rows.iter().map(ToString::to_string).collect();
        vec![
            kernel.name.clone(),
            rows.join(","),
            shape.join(" "),
            grid.join(" x "),
            kernel.block.iter().product::<u32>().to_string(),
            kernel.smem.to_string(),
            kernel.tmem_columns.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = manifest.kernels.iter().map(row).collect();
    let head = ["kernel", "rows", "shape", "grid", "threads", "smem", "tmem"];
    output::table(&head, &rows, 4) + &format!("{} kernels for {}\n", rows.len(), manifest.target)
}
