// Stand-in: libtorch's header includes it and uses nothing of it.
#pragma once
