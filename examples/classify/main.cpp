// Classifies images with a trained detector, saying "unknown" to what it was not trained on.
//
//   classify runs/first/detector.safetensors photos/
#include <poem/detector.h>
#include <poem/error.h>
#include <poem/read.h>
#include <poem/runtime.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: classify DETECTOR IMAGES\n");
    return 2;
  }
  try {
    poem::set_up_runtime(/*threads=*/0);
    poem::set_up_logging(/*quiet=*/true);  // warnings on stderr
    const poem::Detector detector = poem::Detector::load(argv[1]);
    poem::ReadOptions options;
    options.size = detector.size;
    const poem::ImageSet images = poem::read_images(argv[2], options);
    int64_t image = 0;
    for (const poem::Verdict& verdict : detector.judge(images)) {
      std::printf("%s\t%s\t%g\n", images.title(image++).c_str(), detector.word(verdict).c_str(),
                  verdict.p_value);
    }
    return 0;
  } catch (const poem::Error& error) {
    std::fprintf(stderr, "classify: %s\n", error.what());
    return 2;
  }
}
