// cirrus: sharpens maps of Galactic dust, trains and evaluates the models that do it.
#include "apps/cirrus/verbs.h"
#include "base/program.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  const Program program{"cirrus",
                        "Diffusion super-resolution of FITS maps of Galactic dust.",
                        {
                            {"enhance", "upscale FITS maps", app::enhance},
                            {"train", "train a super-resolution model on synthetic sky", app::train},
                            {"evaluate", "measure how well methods recover maps whose truth is known", app::evaluate},
                            {"models", "list the models there are", app::models},
                            {"devices", "list the devices that can run here", app::devices},
                        },
                        R"(@inproceedings{karras2022edm,
  author = {Karras, Tero and Aittala, Miika and Aila, Timo and Laine, Samuli},
  title = {Elucidating the Design Space of Diffusion-Based Generative Models},
  booktitle = {NeurIPS},
  year = {2022},
  eprint = {2206.00364}
}
@inproceedings{karras2024edm2,
  author = {Karras, Tero and Aittala, Miika and Lehtinen, Jaakko and Hellsten, Janne and Aila, Timo and Laine, Samuli},
  title = {Analyzing and Improving the Training Dynamics of Diffusion Models},
  booktitle = {CVPR},
  year = {2024},
  eprint = {2312.02696}
}
@misc{lu2022dpmsolverpp,
  author = {Lu, Cheng and Zhou, Yuhao and Bao, Fan and Chen, Jianfei and Li, Chongxuan and Zhu, Jun},
  title = {DPM-Solver++: Fast Solver for Guided Sampling of Diffusion Probabilistic Models},
  year = {2022},
  eprint = {2211.01095}
}
@article{miville2007dust,
  author = {Miville-Desch{\^e}nes, M.-A. and Lagache, G. and Boulanger, F. and Puget, J.-L.},
  title = {Statistical properties of dust far-infrared emission},
  journal = {A\&A},
  volume = {469},
  pages = {595},
  year = {2007}
})"};
  return run_program(program, argc, argv);
}
